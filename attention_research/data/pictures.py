"""Pictures in files as arrays of 8 bits: the one reader of every picture, of a data set's and of the user's.

Pillow decodes, whatever else is installed, so that a picture is the same numbers everywhere. What a file says about
itself is followed: the orientation of a photograph (EXIF), transparency (on white), a palette, CMYK, grey of 16 bits
(scaled, not cut off). Of an animation the first frame is read.
"""

from __future__ import annotations

import io
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

from attention_research.errors import ConfigError

#: Channels -> what Pillow calls them.
MODES = {1: "L", 3: "RGB"}
#: A picture of more pixels is refused: Pillow's own limit, which keeps a small file from filling the memory.
MOST_PIXELS = 2 * 89_478_485
_ORIENTATION = 0x0112
#: EXIF orientation -> what turns the picture upright.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
#: Formats whose 32-bit grey holds values of 16 bits.
_SIXTEEN_BITS = ("PNG", "PPM")
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # `MOST_PIXELS` is what counts
warnings.filterwarnings("ignore", "(?i)corrupt EXIF data", module=r"PIL\.")


def read_picture(path: Path | str, channels: int = 3, name: str | None = None) -> np.ndarray:
    """The picture in a file as uint8 [Y X channels]. `name` is what messages call it, the path by default.

    Raises `ConfigError`, one line, where there is no file or no picture that can be read.
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
    except Exception as error:  # Pillow's decoders raise whatever a damaged file leads them to
        reason = " ".join(str(error).split()) if isinstance(error, OSError) else type(error).__name__
        reason = "unknown format" if isinstance(error, Image.UnidentifiedImageError) else reason
        raise ConfigError(f"{name}: not a picture that can be read; give a PNG or JPEG file ({reason})") from None


def array_of(picture: Image.Image) -> np.ndarray:
    """[Y X C] of a picture in grey or in colours."""
    array = np.asarray(picture)
    return array[..., None] if array.ndim == 2 else array


def eight_bits(picture: Image.Image, name: str = "a picture") -> Image.Image:
    """A picture of any of Pillow's modes in grey ("L") or colours ("RGB"), what is transparent on white.

    Grey of 16 bits is scaled to 8. Grey of 32 bits and floats do not say their range: values up to 1 (floats only), 255
    or 65,535 are taken for what they look like; others raise `ConfigError`.
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
    """The picture as its photographer saw it; EXIF that cannot be read says nothing."""
    turn = None
    with suppress(Exception):
        turn = _UPRIGHT.get(of.getexif().get(_ORIENTATION, 1))
    return picture if turn is None else picture.transpose(turn)


def _check_sums(data: bytes, name: str) -> None:
    """Raises `ConfigError` where a PNG file is damaged in a way that its decoder does not see."""
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
