"""A tool of LLVM 14, `tool`, twice: `origin` "debian", whose programs share libLLVM and libclang-cpp, and "pypi", a wheel
whose program has the parts of them that it uses linked in."""


def build(b):
    tool, version = b.parameters["tool"], b.parameters["version"]
    where = b.path("packages/.keep").rpartition("/")[0]
    if b.parameters["origin"] == "pypi":
        pip = b.tool("pip")
        b.fetch([pip, "download", "-q", "--no-deps", "--only-binary=:all:", "-d", where, f"{tool}=={version}"])
        inside = f"{tool.replace('-', '_')}/data/bin/{tool}"
        b.run(["sh", "-c", f"python3 -m zipfile -e {where}/*.whl {where}/x"])
    else:
        major = version.partition(".")[0]
        b.tool("apt-get")
        for library in (f"libclang-cpp{major}", f"libllvm{major}"):
            b.installed(library)
        b.fetch(["sh", "-c", f"cd {where} && apt-get download -q {tool}-{major}"])
        inside = f"usr/lib/llvm-{major}/bin/{tool}"
        b.run(["sh", "-c", f"dpkg-deb -x {where}/*.deb {where}/x"])
    # The Debian program finds its libraries by a RUNPATH from where it is installed, or in the system's directories.
    b.run(["sh", "-c", f"cp {where}/x/{inside} {b.path('prog')} && chmod +x {b.path('prog')}"])
    return [b.path("prog"), "--version"]
