"""Results travel: pushed to a remote and pulled elsewhere, checksums verified on arrival.

The remotes are DVC's (`dvc remote add -d NAME URL`): a local folder, or whatever fsspec opens.
There, files lie by their sha256 (`files/ab/cdef...`, each once) and entries name them
(`entries/<stage>/<key>.json`, written last), so an interrupted transfer goes on where it was.
"""

from __future__ import annotations

import configparser
import json
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from deeploop.errors import BuildError, UserError
from deeploop.fileio import fsync, sha256_file
from deeploop.locks import hold_build_lock
from deeploop.plan import Run, load_plan
from deeploop.resolve import Fetch, Resolver
from deeploop.store import Entry, Outputs, key_of, publish


class Remote:
    """A place that keeps entries of the store.

    Raises:
        BuildError: when it cannot be reached.
    """

    def __init__(self, url: str) -> None:
        import fsspec

        self.url = url
        try:
            self._files, self._root = fsspec.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise BuildError(f"cannot open the remote {url}: {error}") from None

    def push(self, entry: Entry, outputs: Outputs) -> int:
        """Send what is missing of an entry; return how many bytes were sent."""
        sent = 0
        for name, output in outputs.items():
            target = self._file(output["sha256"])
            if self._size(target) != output["bytes"]:
                self._put(entry.outputs_folder / name, target)
                sent += output["bytes"]
        for name in ("manifest.json", "spec.json", "provenance.json"):
            self._put(entry.folder / name, f"{self._entry(entry)}/{name}")
        return sent

    def outputs(self, entry: Entry) -> Outputs | None:
        """Return what an entry holds there, or None when it is not there."""
        try:
            text = self._files.cat_file(f"{self._entry(entry)}/manifest.json")
            outputs: Outputs = json.loads(text)["outputs"]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            return None
        return outputs

    def pull(self, entry: Entry, outputs: Outputs) -> int:
        """Fetch an entry into the store; return how many bytes were fetched.

        Raises:
            BuildError: when a file arrives with other bytes than its sha256 says.
        """
        arriving = entry.folder.with_name(f"{entry.key}.pulling")
        fetched = 0
        for name, output in outputs.items():
            target = arriving / "outputs" / name
            if not (target.is_file() and sha256_file(target) == output["sha256"]):
                self._get(self._file(output["sha256"]), target, output["sha256"])
                fetched += output["bytes"]
        for name in ("spec.json", "provenance.json", "manifest.json"):
            self._get(f"{self._entry(entry)}/{name}", arriving / name)
        for path in sorted(arriving.rglob("*"), reverse=True):
            fsync(path)
        if entry.folder.exists():
            entry.set_aside()
        arriving.rename(entry.folder)
        return fetched

    def _entry(self, entry: Entry) -> str:
        return f"{self._root}/entries/{entry.stage}/{entry.key}"

    def _file(self, sha256: str) -> str:
        return f"{self._root}/files/{sha256[:2]}/{sha256[2:]}"

    def _size(self, path: str) -> int | None:
        try:
            return int(self._files.size(path))
        except FileNotFoundError:
            return None

    def _put(self, source: Path, target: str) -> None:
        """Upload under another name first: a cut transfer must not look whole."""
        try:
            self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(source), f"{target}.part")
            self._files.mv(f"{target}.part", target)
        except OSError as error:
            raise BuildError(f"cannot write to {self.url}: {error.strerror or error}") from None

    def _get(self, source: str, target: Path, sha256: str | None = None) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        try:
            self._files.get_file(source, str(part))
        except FileNotFoundError:
            raise BuildError(f"{self.url}: {source} is missing there; push again") from None
        if sha256 is not None and sha256_file(part) != sha256:
            part.unlink()
            raise BuildError(f"{self.url}: {source} arrived with other bytes than its sha256 says")
        part.rename(target)


def open_remote(root: Path, name_or_url: str | None) -> Remote:
    """Return the remote of that name or address; DVC's default remote when absent.

    Raises:
        UserError: when there is none.
    """
    config = configparser.ConfigParser()
    config.read([root / ".dvc" / "config", root / ".dvc" / "config.local"], encoding="utf-8")
    name = name_or_url or config.get("core", "remote", fallback=None)
    if name is None:
        raise UserError("there is no default remote: `dvc remote add -d NAME URL`, or --remote URL")
    section = f"'remote \"{name}\"'"
    if config.has_option(section, "url"):
        url = config.get(section, "url")
        return Remote(url if "://" in url else str(root / ".dvc" / url))
    if "://" in name or "/" in name:
        return Remote(name)
    raise UserError(f"there is no remote '{name}' in .dvc/config: `dvc remote add {name} URL`")


def fetcher(root: Path) -> Fetch | None:
    """Return what fetches single entries from the default remote; None when there is none."""
    try:
        remote = open_remote(root, None)
    except (UserError, BuildError):
        return None

    def fetch(run: Run, entry: Entry) -> bool:
        outputs = remote.outputs(entry)
        if outputs is None:
            return False
        print(f"deeploop: fetching {run.id} from {remote.url}", file=sys.stderr, flush=True)
        remote.pull(entry, outputs)
        return True

    return fetch


def push(root: Path, resolver: Resolver, runs: Collection[Run], remote: Remote) -> Iterator[str]:
    """Send the entries of runs that are built here; yield a line for each.

    Raises:
        BuildError: when an entry is damaged here.
    """
    for run in runs:
        if not resolver.is_current(run) or resolver.is_absent(run):
            yield f"{run.id}: not built here"
            continue
        entry = Entry(resolver.store, run.stage, resolver.keys[run])
        if faults := entry.damage():
            raise BuildError(f"{run.id}: {faults[0]}; `deeploop verify --deep` sets it aside")
        sent = remote.push(entry, resolver.outputs[run])
        yield f"{run.id}: {sent:,} bytes sent" if sent else f"{run.id}: already there"


def pull(root: Path, resolver: Resolver, runs: Collection[Run], remote: Remote) -> Iterator[str]:
    """Fetch the entries of runs, and learn of all they hang on; yield a line for each.

    Keys follow from the digests of upstream outputs, so the walk needs the upstream entries'
    lists of digests but not their bytes.
    """
    known: dict[Run, Outputs] = {}
    for run in resolver.plan:
        if any(up not in known for up in run.inputs):
            continue
        upstream = [known[up] for up in run.inputs]
        entry = Entry(resolver.store, run.stage, key_of(run.spec, upstream))
        outputs = entry.outputs()
        if outputs is None and (outputs := remote.outputs(entry)) is not None and run in runs:
            fetched = remote.pull(entry, outputs)
            yield f"{run.id}: {fetched:,} bytes fetched"
        elif outputs is None:
            outputs = resolver.outputs.get(run)
        if outputs is not None:
            known[run] = outputs
            publish(root, run, entry, outputs, upstream)
    for run in runs:
        if run not in known:
            yield f"{run.id}: not there"


def transfer(
    root: Path,
    suite: str | None,
    stage: str | None,
    name: str | None,
    remote: str | None,
    action: Callable[[Path, Resolver, Collection[Run], Remote], Iterator[str]],
) -> int:
    """Push or pull the chosen runs as the tree's only builder, saying what was done.

    Raises:
        UserError: when there is no such run or remote.
        BuildError: when bytes are damaged on either side.
    """
    plan = load_plan(root, suite)
    runs = plan.chosen(stage, name)
    place = open_remote(root, remote)
    lock = hold_build_lock(root, action.__name__, wait=True)
    for line in action(root, Resolver(root, plan, write=True), runs, place):
        print(line, flush=True)
    assert lock is not None  # held until here
    return 0
