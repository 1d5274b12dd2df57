"""Snakemake's view of the plan in params.yaml.

`snakemake -c all all` builds the default suite, `--config suite=paper` another one; a table is a
target of its own (`snakemake -c all table1`). What is stale is decided by `deeploop.resolve`.
"""


include: "workflow/rules/common.smk"
include: "workflow/rules/stages.smk"
include: "workflow/rules/report.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        [str(run.manifest) for run in BUILD.runs],
