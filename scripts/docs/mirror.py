"""Serve small data sets on this machine in place of the published ones, and run ``cnnpool`` on them.

``python scripts/docs/mirror.py CONSTANTS.json train data=mnist ...`` is ``cnnpool train data=mnist ...`` with
the addresses and digests of ``CONSTANTS.json`` in place of the published ones.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from scripts.docs.small_data import Constants

CONSTANTS = "CNNPOOL_MIRROR_CONSTANTS"
"""Environment variable that names the file of constants to the processes of a sweep."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of an HTTP server of ``folder``; below ``/cut/`` every file ends after half its bytes."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def at(url: str, constants: Constants) -> Constants:
    """``constants`` with the addresses of the data sets' folders below ``url``."""
    return {
        name: {**own, "mirrors": [f"{url}/{name}/"], "url": f"{url}/{name}/{own.get('filename', '')}"}
        for name, own in constants.items()
    }


def write_constants(path: Path, constants: Constants) -> None:
    """Write the file that this script takes as its first argument."""
    path.write_text(json.dumps(constants))


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if not self.path.startswith("/cut/"):
            return super().do_GET()
        content = Path(self.translate_path(self.path.removeprefix("/cut"))).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        return None

    def log_message(self, *arguments: Any) -> None:
        pass

    def handle(self) -> None:
        # torchvision asks for a file twice, and does not read the first answer.
        with suppress(ConnectionError):
            super().handle()


def redirect(constants: Constants) -> None:
    """Let the data sets of this process take their addresses and digests from ``constants``."""
    from cnnpool import registry

    construct = registry.construct

    def construct_mirrored(table: dict[str, Any], room: str, name: str, *args: Any, **options: Any) -> Any:
        # Imported here: jobs are forked only where torch, and with it the data sets, is not imported yet.
        if room == "datasets" and name in constants:
            from torchvision import datasets

            table[name].sha256 = None
            for key, value in constants[name].items():
                setattr(getattr(datasets, table[name].title), key, value)
        return construct(table, room, name, *args, **options)

    registry.construct = construct_mirrored


def main() -> None:
    from cnnpool import cli

    os.environ[CONSTANTS] = str(Path(sys.argv[1]).resolve())
    redirect(json.loads(Path(sys.argv[1]).read_text()))
    sys.argv = ["cnnpool", *sys.argv[2:]]
    cli.main()


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    # The jobs' own processes import this file, which started the command, under this name.
    redirect(json.loads(Path(os.environ[CONSTANTS]).read_text()))
