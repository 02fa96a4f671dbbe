"""A headless Chromium, driven by the DevTools protocol over pipes: no package is needed for it."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# The protocol speaks on the files 3 and 4.
REPLACE = """
import os, sys
read, write = (os.dup(int(number)) for number in sys.argv[1:3])
read, write = os.dup(read), os.dup(write)
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def installed():
    """The browser's path; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of one browser, with everything that it complains of in ``errors``."""

    def __init__(self, home):
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        options += ["--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={home}"]
        command = [sys.executable, "-c", REPLACE, str(read), str(write), installed(), *options, "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read)
        os.close(write)
        self._number, self._rest, self._answers = 0, b"", {}
        self._session = None
        self.errors = []
        try:
            self._attach()
        except AssertionError:
            self.close()
            raise

    def _attach(self):
        [page] = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        found = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """The answer to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + 120
        while self._number not in self._answers:
            self._listen(until - time.monotonic())
        answer = self._answers.pop(self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def _listen(self, seconds):
        ready, _, _ = select.select([self._read], [], [], max(0, seconds))
        assert ready, "the browser does not answer"
        received = os.read(self._read, 1 << 20)
        assert received, "the browser has ended"
        *messages, self._rest = (self._rest + received).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._note(message["method"], message.get("params", {}))

    def _note(self, method, content):
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(content["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and content["type"] in ("error", "assert"):
            self.errors.append(json.dumps(content["args"]))
        elif method == "Log.entryAdded" and content["entry"]["level"] == "error":
            self.errors.append(json.dumps(content["entry"]))

    def size(self, width, height=1000):
        """Give the window a size in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, address):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def run(self, script):
        """The value of an expression in TensorBoard's page; ``tab`` is the document of the tab's frame."""
        code = (
            f"(() => {{ const tab = document.querySelector('iframe')?.contentDocument; return {script}; }})()"
        )
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script, seconds=120):
        """The first value of an expression that is true; a page that is loading has none yet."""
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):
                if value := self.run(script):
                    return value
            assert time.monotonic() < until, f"never true: {script}; errors: {self.errors}"
            time.sleep(0.2)

    def press(self, key, text=""):
        """Press a key of the keyboard and let it go."""
        number = {"Enter": 13, "Escape": 27}[key]
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number, **more
            )

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
