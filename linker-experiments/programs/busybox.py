"""busybox as Debian ships it: `package` "busybox" (dynamic) or "busybox-static"."""


def build(b):
    package = b.parameters["package"]
    b.tool("apt-get")
    where = b.path("packages/.keep").rpartition("/")[0]
    b.fetch(["sh", "-c", f"cd {where} && apt-get download -q {package}"])
    b.run(["sh", "-c", f"dpkg-deb -x {where}/{package}_*.deb {where}/x && cp {where}/x/bin/busybox {b.path('busybox')}"])
    return [b.path("busybox"), "true"]
