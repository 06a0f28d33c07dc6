"""`count` functions that run before main. `work` "none": they return at once; "page": each writes one page of its own
that holds zeros until then."""

SOURCE = """/* {count} constructors. */
{variables}
static void construct(void) {{ {body} }}
__asm__(".pushsection .init_array, \\"aw\\", @init_array\\n.rept {count}\\n.quad construct\\n.endr\\n.popsection\\n");
/* The assembler's reference is not seen by the compiler. */
void *keep = (void *)construct;
int main(void) {{ return 0; }}
"""


def build(b):
    count, work = b.parameters["count"], b.parameters.get("work", "none")
    variables, body = "", ""
    if work == "page":
        variables, body = f"static volatile char pages[{count} * 4096L]; static long next;", "pages[4096 * next++] = 1;"
    text = SOURCE.format(count=count, variables=variables, body=body)
    return [b.compile("prog", [b.source("constructors.c", text)], b.flags)]
