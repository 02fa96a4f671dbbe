"""The package's source never runs code from a file, nor listens to the world."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = sorted(ROOT.glob("cnnpool/**/*.py"))
RUNS_CODE = {
    "eval", "exec", "compile", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads",
    "hydra.utils.instantiate", "hydra.utils.call", "instantiate", "torch.hub.load", "torch.jit.load",
    "torch.export.load", "torch.package.PackageImporter", "yaml.load", "yaml.unsafe_load", "shelve.open",
    "joblib.load", "shutil.unpack_archive",
}  # fmt: skip


def wrong(source):
    """Calls in ``source`` that run code from a file, or trust a file to be plain."""
    found = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name, options = ast.unparse(call.func), {k.arg: ast.unparse(k.value) for k in call.keywords}
        if name in RUNS_CODE:
            found.append(f"{call.lineno}: {name}")
        if name.endswith((".extract", ".extractall")):
            found.append(f"{call.lineno}: {name} writes where an archive says")
        if name == "torch.load" and options.get("weights_only") != "True":
            found.append(f"{call.lineno}: torch.load without weights_only=True")
        if name in ("np.load", "numpy.load") and options.get("allow_pickle", "False") != "False":
            found.append(f"{call.lineno}: {name} with pickles")
        if options.get("shell", "False") != "False":
            found.append(f"{call.lineno}: {name} by a shell")
    return found


def test_no_code_comes_from_a_file():
    found = {path.relative_to(ROOT).as_posix(): wrong(path.read_text(encoding="utf-8")) for path in PACKAGE}
    assert {path: calls for path, calls in found.items() if calls} == {}


def test_what_would_run_code_is_found():
    for source in (
        *("torch.load(path)", "torch.load(path, weights_only=False)", "eval(text)", "pickle.loads(data)"),
        *("np.load(path, allow_pickle=True)", "subprocess.run(text, shell=True)", "yaml.load(text)"),
        *("tar.extractall(folder)", "tarfile.open(path).extract(name)"),
    ):
        assert wrong(source), source


def test_nothing_listens_to_other_machines():
    texts = [*PACKAGE, *ROOT.glob("scripts/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    open_to_all = re.compile(r"--bind_all|0\.0\.0\.0|--host[ =]")
    assert [path.name for path in texts if open_to_all.search(path.read_text(encoding="utf-8"))] == []
    from cnnpool.system.next_command import BOARD

    assert BOARD.startswith("http://localhost:")
