"""The report."""

from deeploop.stage import Draft, Section, Stage


class ReportSection(Section):
    title: str = ""


def expand(section, plan):
    inputs = [(stage, draft.name) for stage in ("evaluate", "vote") for draft in plan.of(stage)]
    yield Draft("all", {"title": section.title, "rows": [list(i) for i in inputs]}, tuple(inputs))


def run(job):
    """Write one row a result."""
    rows = []
    for each in job.inputs:
        text = next(each.folder.glob("*.txt")).read_text()
        rows.append(f"{each.stage} {each.run} {text}")
    (job.folder / "report.txt").write_text(job.params["title"] + "\n" + "\n".join(rows))


STAGE = Stage("report", "the report", ReportSection, expand, exports="reports/{suite}", local=True)
