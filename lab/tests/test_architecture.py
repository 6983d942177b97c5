"""The folders of the lab depend on one another one way only, and modules have no import cycles."""

import ast
from pathlib import Path

import zonda_lab

ROOT = Path(zonda_lab.__file__).parent
# Each may import those before it; the modules beside the folders come first.
FOLDERS = (
    *("statistics", "experiments", "servers", "zones", "rig", "telemetry", "load", "results", "measurement", "fleet"),
    *("procedures", "run", "analysis", "report", "doctor", "command"),
)


def imports(path):
    """Modules of the lab that a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "zonda_lab":
            for alias in node.names:
                inside = ROOT.parent / node.module.replace(".", "/") / alias.name
                is_module = inside.is_dir() or inside.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("zonda_lab"))


def graph():
    found = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        found[name] = set(imports(path)) - {name}
    return found


def folder_of(module):
    part = module.split(".")[1] if module.count(".") else ""
    return FOLDERS.index(part) if part in FOLDERS else -1


def test_every_folder_is_listed():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == set(FOLDERS)


def test_folders_import_only_those_before_them():
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        if module != "zonda_lab.__main__"
        for other in others
        if folder_of(other) > folder_of(module)
    ]
    assert wrong == []


def test_modules_have_no_import_cycles():
    left = graph()
    left.pop("zonda_lab")
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert left == {}, "these modules, or some of them, import one another"
