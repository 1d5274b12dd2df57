"""The report's tables and figures for Snakemake's own report.

`snakemake -c1 shown`, then `snakemake shown --report report.zip`. Not part of `all`: the pages in
`reports/` need none of it.
"""


# Times and lineage differ from build to build: the page of the runs is no rule's output.
onsuccess:
    if any(stage.name == "report" for stage in BUILD.stages):
        shell("python -m deeploop report --suite {BUILD.suite} || true")


if any(stage.name == "report" for stage in BUILD.stages):

    rule shown:
        input:
            f"results/{BUILD.suite}/report/all/manifest.json",
        output:
            tables=report(
                directory(f"results/{BUILD.suite}/shown/tables"),
                patterns=["{name}.csv"],
                caption="../report/table.rst",
                category="Tables",
                labels={"table": "{name}"},
            ),
            figures=report(
                directory(f"results/{BUILD.suite}/shown/figures"),
                patterns=["{name}.svg"],
                caption="../report/figure.rst",
                category="Figures",
                labels={"figure": "{name}"},
            ),
        log:
            f"logs/{BUILD.suite}/shown.log",
        localrule: True
        conda:
            "../envs/deeploop.yaml"
        params:
            source=f"reports/{BUILD.suite}",
        shell:
            "mkdir -p {output.tables} {output.figures} 2> {log}"
            " && cp {params.source}/tables/*.csv {output.tables} 2>> {log}"
            " && cp {params.source}/figures/*.svg {output.figures} 2>> {log}"
