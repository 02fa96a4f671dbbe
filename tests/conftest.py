"""What holds for all tests."""

import os
import signal

# Before torch starts threads of its own: a fork of a process that has some may wait for them for ever.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Under nohup runs outlive SIGHUP, and their tests would wait for what never comes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
