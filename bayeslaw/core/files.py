"""Write files whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from uuid import uuid4

from bayeslaw.core.errors import BayeslawError, kind_of, shortened

TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".json")  # of files that hold a table of runs


ADDRESS = re.compile(r"(https?|ftps?|s3|gs|hf):/", re.IGNORECASE)  # with one slash where it has been a Path


def as_path(given: object, what: str) -> Path:
    """Return a path that was given for `what`, such as 'A fit', or refuse what is no path."""
    if not isinstance(given, (str, os.PathLike)):
        raise BayeslawError(f"{what} is named by the path of a file, not by {kind_of(given)}.", code="not-a-path")
    return own_path(given)


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the names of files without their endings, and with their folders where several files have one name."""
    stems = [path.stem for path in paths]
    return [f"{path.absolute().parent.name}/{path.stem}" if stems.count(path.stem) > 1 else path.stem for path in paths]


def files_below(folder: Path) -> list[Path]:
    """Return the files in a folder and its folders, sorted.

    Links are followed, as by TensorBoard, for which folders of links to runs are made: each folder is looked into once, by its own
    name if that is in the folder too, so that a link to a folder above ends.
    """
    files, seen, folders, links = list[Path](), set[Path](), [folder], list[Path]()
    while folders or links:
        place = folders.pop() if folders else links.pop(0)
        if (real := place.resolve()) in seen:
            continue
        seen.add(real)
        with suppress(OSError):  # a folder that may not be read, or is gone
            for path in sorted(place.iterdir()):
                if path.is_dir():
                    (links if path.is_symlink() else folders).append(path)
                elif path.is_file():
                    files.append(path)
    return sorted(files)


def own_path(given: str | os.PathLike[str]) -> Path:
    """Return the path of a file of this computer, with the home folder for a ``~`` before it; an address is refused."""
    if ADDRESS.match(str(given)):
        problem = f"{shortened(repr(str(given)))} is an address, and bayeslaw reads and writes files of this computer alone"
        raise BayeslawError(f"{problem}: download it first, and give the path of the file.", code="an-address")
    try:
        return Path(given).expanduser()
    except RuntimeError:  # there is no such user, so that it may be a name that begins so
        return Path(given)


def readable(name: str) -> str:
    """Return the name of a file as text: it may have bytes that are none, as of a computer with another encoding."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode(errors="replace")
    return name


def check_target(path: Path, what: str, *endings: str) -> None:
    """Refuse a path that can't be written to, before any work is done.

    Parameters
    ----------
    path : Path
    what, *endings : str
        What is to be written, such as 'A report', and endings that the path must have, such as '.html'; any if none is given.
    """
    if path.is_dir():
        raise BayeslawError(f"{path} is a folder, not a file to write {what.lower()} to.", code="is-a-folder")
    if endings and path.suffix.lower() not in endings:
        raise BayeslawError(f"{what} is written to a file ending in {' or '.join(endings)}, not {path.name}.", code="wrong-ending")
    if not path.parent.is_dir():
        raise BayeslawError(f"There is no folder {path.parent} to write {path.name} into.", code="no-folder")
    _refuse_protected(path)
    try:
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise BayeslawError(f"{path} can't be written: {error.strerror}.", code="not-writable") from None


def _refuse_protected(path: Path) -> None:
    """Refuse a file that may not be written: to rename another file to its name takes the right to write to the folder alone."""
    if path.is_file() and not os.access(path, os.W_OK):
        raise BayeslawError(f"{path} can't be written: it is read-only. Write to another file, or allow it.", code="not-writable")


def write_whole(path: Path, write: Callable[[Path], object], *, new: bool = False) -> None:
    """Let `write` write to a temporary name beside `path`, then rename: an older file stays whole until then.

    A link stays one: the file that it leads to is written. A read-only file is refused, and the permissions of an older file
    stay. Several threads, processes and computers may write to one path: it has what the last of them wrote.

    Parameters
    ----------
    path : Path
    write : callable
        Takes the temporary path, which has the ending of `path`.
    new : bool
        Raise FileExistsError where there is a file, also if another process has written it meanwhile.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise BayeslawError(f"There is no folder {target.parent} to write {target.name} into.", code="no-folder")
    _refuse_protected(target)
    # Processes of two computers or containers may have one id, and the name of a file may be as long as names can be.
    temporary = target.with_name(f".{target.stem[:20]}.{uuid4().hex}.tmp{target.suffix}")
    try:
        write(temporary)
        if target.is_file():
            with suppress(OSError):  # of another user's file
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        _put(temporary, target, new=new)
    except (BayeslawError, FileExistsError):  # the first is of what was to be written
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BayeslawError(f"{path} can't be written: {why}.", code="not-writable") from None
    finally:
        with suppress(OSError):  # where the folder can't be written the error above says so
            temporary.unlink(missing_ok=True)


def _put(temporary: Path, target: Path, *, new: bool) -> None:
    """Rename a file, and raise FileExistsError where there is another and it is to be new."""
    if new:
        try:
            os.link(temporary, target)  # unlike a rename it fails where there is a file
            return
        except FileExistsError:
            raise
        except OSError:  # a disk without links
            if target.exists():
                raise FileExistsError(target) from None
    temporary.replace(target)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all; bytes of a file's name that are no text are question marks in it."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors="replace"))


def write_bytes(path: Path, data: bytes, *, new: bool = False) -> None:
    """Write a file whole or not at all, byte for byte on every system.

    Parameters
    ----------
    path, data, new : Path, bytes, bool
        `new` is as in `write_whole`.
    """
    write_whole(path, lambda temporary: temporary.write_bytes(data), new=new)


def write_own(texts: Mapping[Path, str], what: str) -> None:
    """Write text files whole, or none where one of them exists with other contents, since it may be the user's own.

    Parameters
    ----------
    texts : mapping of path to str
    what : str
        Whose files they are, such as "the demonstration's table".
    """
    for path, text in texts.items():
        if path.is_file() and path.read_bytes().replace(b"\r\n", b"\n") != text.encode():
            message = f"{path} exists, and is not {what}: choose another folder (-o, folder=) or move it."
            raise BayeslawError(message, code="would-overwrite")
    for path, text in texts.items():
        write_text(path, text)


def make_folder(path: Path) -> None:
    """Make a folder unless it exists, or raise an error that says why it can't be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file has that name" if path.is_file() else error.strerror or str(error)
        raise BayeslawError(f"The folder {path} can't be made: {why}.", code="no-folder") from None
