"""A program that needs `libraries` shared libraries, each with `functions` functions.

`uses` "all": the program calls one function of each; "none": it calls nothing. `directories` says how many directories
its RUNPATH names (the libraries lie in the last one; the others are there and empty, or absent with `absent`).
`imports` functions are called in one further library, which is linked `provider` "first" or "last": symbols are
searched in the order of linking. `by_path`: the libraries have no soname and are needed by path."""


def each_library(b):
    functions = b.parameters.get("functions", 4)
    by_path = b.parameters.get("by_path", False)
    for i in range(b.parameters["libraries"]):
        text = "".join(f"int library_{i:03}_function_{j}(void) {{ return {j}; }}\n" for j in range(functions))
        source = b.source(f"library_{i:03}.c", text)
        name = f"{last_directory(b)}/lib{i:03}.so"
        flags = ["-shared", "-fPIC", *b.library_flags] if by_path else None
        yield b.library(name, source, flags)


def last_directory(b):
    return f"lib{b.parameters.get('directories', 1) - 1:02}"


def runpath(b):
    count = b.parameters.get("directories", 1)
    names = [f"lib{i:02}" for i in range(count)]
    if not b.parameters.get("absent", False):
        for name in names:
            b.path(f"{name}/.keep")
    return "-Wl,-rpath," + ":".join(f"$ORIGIN/{n}" for n in names)


def build(b):
    libraries = list(each_library(b))
    called = []
    if b.parameters.get("uses", "all") == "all":
        called = [f"library_{i:03}_function_0" for i in range(len(libraries))]
    imports = [f"imported_function_{i:05}" for i in range(b.parameters.get("imports", 0))]
    if imports:
        source = b.source("many.c", "".join(f"void {n}(void) {{}}\n" for n in imports))
        many = b.library(f"{last_directory(b)}/libmany.so", source)
        at = 0 if b.parameters["provider"] == "first" else len(libraries)
        libraries.insert(at, many)
    names = called + imports
    declared = "".join(f"void {n}();\n" for n in names)
    calls = "".join(f"    {n}();\n" for n in names)
    text = f"{declared}int main(int argc, char **argv)\n{{\n    (void)argv;\n    if (argc < 1000)\n        return 0;\n{calls}    return 1;\n}}\n"
    return [b.compile("prog", [b.source("libraries.c", text)], [*b.flags, *libraries, runpath(b)])]
