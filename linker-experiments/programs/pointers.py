"""`count` pointers to one place, `stride` bytes apart: a position-independent program has a relative relocation for
each. 8 bytes apart they fill pages, 4096 bytes apart each has a page of its own.
`section` is where they lie."""

SOURCE = """/* {count} pointers, {stride} bytes apart, in {section}. */
__asm__(
    ".pushsection {section}, \\"aw\\", @progbits\\n"
    ".balign 4096\\n"
    ".globl table\\n.hidden table\\n"
    "table:\\n"
    ".rept {count}\\n.quad target\\n{gap}.endr\\n"
    ".popsection\\n"
    ".pushsection .rodata\\n.balign 8\\ntarget: .quad 0\\n.popsection\\n");
extern char table[] __attribute__((visibility("hidden")));
int main(int argc, char **argv) {{ (void)argv; return argc > 1000 ? table[argc] : 0; }}
"""


def build(b):
    count, stride = b.parameters["count"], b.parameters.get("stride", 8)
    section = b.parameters.get("section", ".data.rel.ro")
    gap = f".skip {stride - 8}\\n" if stride > 8 else ""
    text = SOURCE.format(count=count, stride=stride, gap=gap, section=section)
    return [b.compile("prog", [b.source("pointers.c", text)], b.flags)]
