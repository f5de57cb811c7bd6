"""Picture files as 8-bit arrays. All pictures, of data sets and of the user, are read by this module.

Pillow decodes every picture, so that its values are the same on every machine. The metadata of a file are applied: the
orientation of a photograph (EXIF), transparency (on white), a palette, CMYK, 16-bit grey (scaled, not clipped). Only
the first frame of an animation is read.
"""

from __future__ import annotations

import io
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

from attention_research.errors import ConfigError

#: Channels -> the Pillow mode.
MODES = {1: "L", 3: "RGB"}
#: A larger number of pixels is refused. This is Pillow's limit against small files that fill the memory.
MOST_PIXELS = 2 * 89_478_485
_ORIENTATION = 0x0112
#: EXIF orientation -> the operation that turns the picture upright.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
#: Formats in which 32-bit grey holds 16-bit values.
_SIXTEEN_BITS = ("PNG", "PPM")
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # `MOST_PIXELS` is checked instead
warnings.filterwarnings("ignore", "(?i)corrupt EXIF data", module=r"PIL\.")


def read_picture(path: Path | str, channels: int = 3, name: str | None = None) -> np.ndarray:
    """The picture in a file as uint8 [Y X channels]. `name` is its name in messages, by default the path.

    Raises `ConfigError`, one line, if the file does not exist or is not a readable picture.
    """
    name = str(path) if name is None else name
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file; give a PNG or JPEG file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror or error}); give a PNG or JPEG file") from None
    found = decoded(data, channels, name)
    _check_sums(data, name)
    return found


def decoded(data: bytes, channels: int = 3, name: str = "a picture") -> np.ndarray:
    """The picture in the bytes of a file as uint8 [Y X channels]; raises as `read_picture`."""
    if not data:
        raise ConfigError(f"{name}: an empty file; give a PNG or JPEG file")
    try:
        with Image.open(io.BytesIO(data)) as picture:
            _check_size(picture.size, name)
            return array_of(_upright(eight_bits(picture, name), picture).convert(MODES[channels]))
    except ConfigError:
        raise
    except Image.DecompressionBombError:
        raise ConfigError(_too_large(name)) from None
    except Exception as error:  # a damaged file can make Pillow's decoders raise any exception
        reason = " ".join(str(error).split()) if isinstance(error, OSError) else type(error).__name__
        reason = "unknown format" if isinstance(error, Image.UnidentifiedImageError) else reason
        raise ConfigError(f"{name}: not a picture that can be read; give a PNG or JPEG file ({reason})") from None


def array_of(picture: Image.Image) -> np.ndarray:
    """A grey or colour picture as an array [Y X C]."""
    array = np.asarray(picture)
    return array[..., None] if array.ndim == 2 else array


def eight_bits(picture: Image.Image, name: str = "a picture") -> Image.Image:
    """A picture of any Pillow mode as grey ("L") or colours ("RGB"), with transparent pixels on white.

    16-bit grey is scaled to 8 bits. The range of 32-bit grey and of floats is not known: it is taken to be up to 1
    (floats only), 255 or 65,535, the smallest that fits the values; other values raise `ConfigError`.
    """
    if picture.mode in MODES.values() and "transparency" not in picture.info:
        return picture
    if picture.mode.startswith("I") or picture.mode == "F":
        return _scaled(picture, name)
    if not picture.has_transparency_data:
        return picture.convert("L" if picture.mode == "1" else "RGB")
    clear = (picture.convert("LA") if picture.mode == "La" else picture).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")


def _scaled(picture: Image.Image, name: str) -> Image.Image:
    """Grey of more than 8 bits."""
    values = np.asarray(picture).astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format in _SIXTEEN_BITS):
        largest = 65535.0
    else:
        ranges = ((1.0,) if picture.mode == "F" else ()) + (255.0, 65535.0)
        fitting = [largest for largest in ranges if 0 <= low and high <= largest]
        if not fitting:
            said = f"grey values from {low:g} to {high:g}"
            raise ConfigError(f"{name}: {said}; expected 0 to 65535 (16 bits): save it as PNG of 8 or 16 bits")
        largest = fitting[0]
    grey = np.floor(values * (255.0 / largest) + 0.5)
    if isinstance(clear := picture.info.get("transparency"), int):
        grey = np.where(values == clear, 255.0, grey)
    return Image.fromarray(grey.astype(np.uint8))


def _upright(picture: Image.Image, of: Image.Image) -> Image.Image:
    """The picture turned upright by its EXIF orientation; unreadable EXIF is ignored."""
    turn = None
    with suppress(Exception):
        turn = _UPRIGHT.get(of.getexif().get(_ORIENTATION, 1))
    return picture if turn is None else picture.transpose(turn)


def _check_sums(data: bytes, name: str) -> None:
    """Raises `ConfigError` if a PNG file is damaged in a way that its decoder does not detect."""
    try:
        with Image.open(io.BytesIO(data)) as picture:
            picture.verify()
    except Exception as error:  # as in `decoded`
        raise ConfigError(f"{name}: a damaged picture ({' '.join(str(error).split())}); copy it again") from None


def _check_size(size: tuple[int, int], name: str) -> None:
    if size[0] * size[1] > MOST_PIXELS:
        raise ConfigError(_too_large(name))


def _too_large(name: str) -> str:
    return f"{name}: more than {MOST_PIXELS:,} pixels, which are not read; make the picture smaller"
