"""A command-line program of crates.io, `crate` in `version`, built by cargo; flags are RUSTFLAGS."""


def build(b):
    cargo, rustc = b.tool("cargo"), b.tool("rustc")
    host = next(line.split()[1] for line in b.run([rustc, "-vV"]).splitlines() if line.startswith("host:"))
    b.commands.clear()
    name, version = b.parameters["crate"], b.parameters["version"]
    root = b.path(".keep").rpartition("/")[0]
    # With a target named, flags are not given to build scripts and procedural macros.
    words = ["install", name, "--version", version, "--locked", "-q", "--root", root, "--target", host]
    # Settings are built side by side: in one directory one would install what another has just built.
    env = {"RUSTFLAGS": " ".join(b.flags), "CARGO_TARGET_DIR": f"{root}/cargo"}
    b.fetch([cargo, *words], env)
    return [f"{root}/bin/{b.parameters.get('binary', name)}", "--version"]
