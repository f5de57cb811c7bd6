"""A hand-written .deb, following deb(5) and ar(5)."""

import hashlib
import io
import tarfile

from attention_research.data.debian_package import DebianPackage


def deb(members: dict[str, bytes], packing: str = "xz") -> bytes:
    """An archive of these files (path -> content), with a folder and a link for the first one."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{packing}") as tar:
        folder = tarfile.TarInfo("./usr")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for path, content in members.items():
            entry = tarfile.TarInfo(f"./{path}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo(f"./{next(iter(members))}.link")
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
        tar.addfile(link)
    suffix = f".{packing}" if packing else ""
    parts = {"debian-binary": b"2.0\n", "control.tar.gz": b"odd", f"data.tar{suffix}": packed.getvalue()}
    whole = b"!<arch>\n"
    for name, content in parts.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
        whole += header.encode() + content + b"\n" * (len(content) % 2)
    return whole


def downloaded(members: dict[str, bytes], packing: str = "xz") -> DebianPackage:
    """The package with this archive, placed as if `fetch` had downloaded it."""
    content = deb(members, packing)
    package = DebianPackage("handmade", "1.0-2", hashlib.sha256(content).hexdigest(), len(content))
    package.path.write_bytes(content)
    return package
