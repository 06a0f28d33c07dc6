"""`count` pointers to a function that a resolver chooses at start-up: one IRELATIVE relocation each."""

SOURCE = """/* {count} relocations through a resolver. */
static void chosen(void) {{}}
static void (*resolve(void))(void) {{ return chosen; }}
static void function(void) __attribute__((ifunc("resolve")));
void (*table[])(void) = {{ {table} }};
int main(int argc, char **argv) {{ (void)argv; if (argc > 1000) table[argc](); return 0; }}
"""


def build(b):
    count = b.parameters["count"]
    text = SOURCE.format(count=count, table=", ".join(["function"] * count) or "0")
    return [b.compile("prog", [b.source("ifunc.c", text)], b.flags)]
