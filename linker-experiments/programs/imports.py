"""A program that imports from one library.

`style` "calls": `count` functions, each called once in code that is never run, so each has a slot in the PLT.
`style` "pointers": `count` pointers to functions of the library, which take turns among `distinct` of them."""


def build(b):
    count, style = b.parameters["count"], b.parameters.get("style", "calls")
    distinct = b.parameters.get("distinct", count)
    names = [f"imported_function_{i:05}" for i in range(distinct)]
    library = "".join(f"void {n}(void) {{}}\n" for n in names)
    declared = "".join(f"void {n}(void);\n" for n in names)
    if style == "calls":
        calls = "".join(f"    {n}();\n" for n in names)
        body = f"int main(int argc, char **argv)\n{{\n    (void)argv;\n    if (argc < 1000)\n        return 0;\n{calls}    return 1;\n}}\n"
    else:
        table = "".join(f"    {names[i % distinct]},\n" for i in range(count))
        body = f"void (*table[])(void) = {{\n{table}}};\nint main(int argc, char **argv)\n{{\n    (void)argv;\n    if (argc > 1000)\n        table[argc]();\n    return 0;\n}}\n"
    path = b.library("lib/libmany.so", b.source("many.c", library))
    return [b.compile("prog", [b.source("imports.c", declared + body), path], [*b.flags, "-Wl,-rpath,$ORIGIN/lib"])]
