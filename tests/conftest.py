"""What holds for all tests."""

import signal

# Under nohup runs outlive SIGHUP, and their tests would wait for what never comes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
