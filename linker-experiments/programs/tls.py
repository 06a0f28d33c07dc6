"""A library with `count` thread-local variables, each read by code of the library; `local` makes them static."""


def build(b):
    count, local = b.parameters["count"], b.parameters.get("local", False)
    storage = "static __thread" if local else "__thread"
    variables = "".join(f"{storage} int variable_{i:04} = {i};\n" for i in range(count))
    uses = "".join(f"    sum += variable_{i:04}++;\n" for i in range(count))
    text = f"{variables}int use(int i)\n{{\n    int sum = 0;\n    if (i < 1000)\n        return 0;\n{uses}    return sum;\n}}\n"
    library = b.library("lib/libtls.so", b.source("tls.c", text))
    main = "int use(int);\nint main(int argc, char **argv) { (void)argv; return use(argc); }\n"
    return [b.compile("prog", [b.source("uses.c", main), library], [*b.flags, "-Wl,-rpath,$ORIGIN/lib"])]
