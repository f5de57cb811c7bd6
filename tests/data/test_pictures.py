"""Every kind of picture that a user's file can hold, read as the same 8-bit numbers. Unreadable files are one line."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageMode

from attention_research.data.pictures import MOST_PIXELS, decoded, eight_bits, read_picture
from attention_research.errors import ConfigError

GREY = 160
#: Every mode of Pillow -> how the same grey is written in it.
MODES = {
    "1": None, "L": GREY, "P": None, "RGB": (GREY,) * 3, "RGBX": (GREY, GREY, GREY, 255),
    "CMYK": (255 - GREY, 255 - GREY, 255 - GREY, 0),
    "YCbCr": (GREY, 128, 128), "HSV": (0, 0, GREY), "LAB": None, "LA": (GREY, 255), "RGBA": (GREY, GREY, GREY, 255),
    "La": None, "RGBa": None, "PA": None, "I": GREY, "F": float(GREY), "I;16": GREY * 257, "I;16L": None,
    "I;16B": GREY * 257, "I;16N": None,
}  # fmt: skip


def grey(mode):
    """A picture of one grey in a mode."""
    if MODES[mode] is not None:
        return Image.new(mode, (3, 5), MODES[mode])
    if mode in ("P", "PA"):
        return Image.new("L", (3, 5), GREY).convert("P").convert(mode)
    if mode in ("La", "RGBa"):
        return grey(mode.upper() if mode == "La" else "RGBA").convert(mode)
    if mode == "LAB":
        return Image.new("LAB", (3, 5), (167, 128, 128))  # L* = 65.5 is sRGB's 159
    pytest.skip(f"Pillow cannot create a picture of mode {mode}")


def test_every_mode_of_pillow_is_here():
    named = {"1", "L", "I", "F", "P", "RGB", "RGBX", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "RGBa", "LA", "La", "PA",
             "I;16", "I;16L", "I;16B", "I;16N"}  # fmt: skip
    assert named == set(MODES) and all(ImageMode.getmode(mode) for mode in MODES)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "1"])
def test_a_grey_is_the_same_in_every_mode(mode, channels):
    found = np.asarray(eight_bits(grey(mode)).convert({1: "L", 3: "RGB"}[channels]))
    assert found.shape[:2] == (5, 3) and found.dtype == np.uint8 and np.abs(found.astype(int) - GREY).max() <= 1


def saved(picture, format="PNG", **options):
    content = io.BytesIO()
    picture.save(content, format, **options)
    return content.getvalue()


FORMATS = {"PNG": "I;16", "TIFF": "I;16", "PPM": "I;16"}


@pytest.mark.parametrize("format", FORMATS)
def test_grey_of_sixteen_bits_is_scaled(format):
    """Compared with float64 over the whole range. An all-dark picture stays dark."""
    values = np.linspace(0, 65535, 35, dtype=np.uint16).reshape(5, 7)
    for some in (values, values % 200):
        found = decoded(saved(Image.fromarray(some), format), 1)[..., 0]
        assert np.abs(found - some * (255 / 65535)).max() <= 0.5


@pytest.mark.parametrize(
    ("largest", "dtype"), [(1.0, np.float32), (255.0, np.float32), (65535, np.int32), (255, np.int32)]
)
def test_grey_of_thirty_two_bits_by_its_range(largest, dtype):
    values = np.linspace(0, largest, 35).reshape(5, 7).astype(dtype)
    found = decoded(saved(Image.fromarray(values), "TIFF"), 1)[..., 0]
    assert np.abs(found - values * (255 / largest)).max() <= 0.5


@pytest.mark.parametrize("value", [1e6, -3.0, float("nan"), float("inf")])
def test_an_ambiguous_range_is_one_line(value):
    values = np.full((3, 4), value, np.float32)
    with pytest.raises(ConfigError, match=r"^x: grey values from .* to .*; expected 0 to 65535 \(16 bits\)"):
        decoded(saved(Image.fromarray(values), "TIFF"), 1, "x")


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_upright(orientation, mode):
    """The corner that EXIF (TIFF 6.0, tag 274) names the top left is at the top left, in a format that keeps tags."""
    rows, columns = {1: (0, 0), 2: (0, -1), 3: (-1, -1), 4: (-1, 0), 5: (0, 0), 6: (-1, 0), 7: (-1, -1), 8: (0, -1)}[
        orientation
    ]
    dtype = np.uint16 if mode == "I;16" else np.uint8
    pixels = np.full((5, 7), np.iinfo(dtype).max, dtype)
    pixels[rows, columns] = 0
    picture = Image.fromarray(pixels) if mode == "I;16" else Image.fromarray(pixels).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = decoded(saved(picture, exif=exif), 1)[..., 0]
    assert found.shape == ((7, 5) if orientation >= 5 else (5, 7)) and found[0, 0] == 0 and found[1:].min() == 255


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_unreadable_exif_is_ignored():
    data = saved(Image.new("RGB", (7, 5), (GREY,) * 3), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert decoded(data).shape == (5, 7, 3)


def test_transparent_pixels_are_white():
    for mode, clear in (("L", 0), ("RGB", (0, 0, 0)), ("P", 0), ("I;16", 0)):
        picture = Image.new("L", (3, 4), 0) if mode == "P" else Image.new(mode, (3, 4), clear)
        picture = picture.convert("P") if mode == "P" else picture
        assert decoded(saved(picture)).max() == 0
        assert decoded(saved(picture, transparency=clear)).min() == 255, mode


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_its_first_frame(format):
    frames = [Image.new("RGB", (3, 4), (value,) * 3) for value in (GREY, 0, 255)]
    options = {"lossless": True} if format == "WEBP" else {}
    found = decoded(saved(frames[0], format, save_all=True, append_images=frames[1:], **options))
    assert found.shape == (4, 3, 3) and np.abs(found.astype(int) - GREY).max() <= 1


def huge(side):
    """A PNG of a few bytes that claims a size of side x side pixels."""
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


PICTURE = saved(Image.fromarray(np.random.default_rng(3).integers(256, size=(60, 60, 3), dtype=np.uint8)))
JPEG = saved(Image.new("RGB", (60, 60)), "JPEG")
WRONG = {
    "a decompression bomb": (
        huge(20_000),
        f"more than {MOST_PIXELS:,} pixels, which are not read; make the picture smaller",
    ),
    "a truncated PNG": (PICTURE[:-4000], "not a picture that can be read; give a PNG or JPEG file"),
    "a truncated JPEG": (JPEG[:-200], "not a picture that can be read; give a PNG or JPEG file"),
    "only a header": (PICTURE[:20], "not a picture that can be read; give a PNG or JPEG file"),
    "a damaged PNG": (
        PICTURE[:60] + b"\0" * 50 + PICTURE[110:],
        "a damaged picture (",
    ),
    "an empty file": (b"", "an empty file; give a PNG or JPEG file"),
    "text": (b"no picture", "not a picture that can be read; give a PNG or JPEG file (unknown format)"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("error")
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, case):
    data, line = WRONG[case]
    (tmp_path / "photo.png").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_picture(tmp_path / "photo.png")
    assert str(caught.value).startswith(f"{tmp_path / 'photo.png'}: {line}") and "\n" not in str(caught.value)


def test_a_folder_and_a_missing_file_are_one_line(tmp_path):
    for path, reason in ((tmp_path, r"cannot be read \(Is a directory\)"), (tmp_path / "none.png", "no such file")):
        with pytest.raises(ConfigError, match=f"^{path}: {reason}; give a PNG or JPEG file$"):
            read_picture(path)
