"""The three public repositories of ARC puzzles, at the commits that HRM's data set pins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ARCHIVES = "https://codeload.github.com"


@dataclass(frozen=True)
class Repository:
    """One repository at one commit."""

    path: str
    """Owner and name on GitHub."""
    commit: str
    folder: str
    """The folder in it whose sub-folders are sets of puzzles."""
    digest: str
    """See `deeploop.arc.fetching.content_digest`."""
    licence: str

    def url(self, archives: str) -> str:
        """Return where the archive of the commit is, under the base URL `archives`."""
        return f"{archives}/{self.path}/tar.gz/{self.commit}"


REPOSITORIES: Mapping[str, Repository] = {
    "arc1": Repository(
        "fchollet/ARC-AGI",
        "399030444e0ab0cc8b4e199870fb20b863846f34",
        "data",
        "c97e8d2b227d68ed58fa4a990750433fd0754837b52c4b4ae8fe0253c2a42f3a",
        "Apache-2.0",
    ),
    "arc2": Repository(
        "arcprize/ARC-AGI-2",
        "f3283f727488ad98fe575ea6a5ac981e4a188e49",
        "data",
        "eb2c679355adcce3e885c40333a2ac12fd73c9a483feac3a0d04eec0f92fe19f",
        "Apache-2.0",
    ),
    "concept": Repository(
        "victorvikram/ConceptARC",
        "b22ef526b4656679816b7811e78f55cc24d736d7",
        "corpus",
        "5cda903428a5a5acea1b03873efe7c4231f17532bcadc72abb640f0300611337",
        "MIT",
    ),
}
