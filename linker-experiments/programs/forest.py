"""A forest of vtables, as C++ makes them, in a library: `classes` tables of `methods` function pointers, and one object
a class that points to its table. Every method is exported, so each pointer is resolved by name unless a setting keeps
it inside the library."""

HEAD = """/* What a C++ compiler makes of classes with virtual methods. */
typedef int method(void *);
struct object { method *const *vtable; };
"""
# The one thing that the program itself uses stays visible whatever the setting.
USE = '__attribute__((visibility("default"))) int use(int i) { return i > 1000 ? object_0000.vtable[0](0) : 0; }\n'
PROGRAM = "int use(int);\nint main(int argc, char **argv) { (void)argv; return use(argc); }\n"


def one_class(c, methods):
    names = [f"class_{c:04}_method_{m:02}" for m in range(methods)]
    functions = "".join(f"int {n}(void *self) {{ return self != 0 ? {m} : 0; }}\n" for m, n in enumerate(names))
    table = f"method *const vtable_{c:04}[] = {{{', '.join(names)}}};\n"
    return f"{functions}{table}struct object object_{c:04} = {{vtable_{c:04}}};\n"


def build(b):
    classes, methods = b.parameters["classes"], b.parameters["methods"]
    text = HEAD + "".join(one_class(c, methods) for c in range(classes)) + USE
    library = b.library("lib/libforest.so", b.source("forest.c", text))
    return [b.compile("prog", [b.source("uses.c", PROGRAM), library], [*b.flags, "-Wl,-rpath,$ORIGIN/lib"])]
