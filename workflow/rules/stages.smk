"""One rule a stage, from the same declarations as dvc.yaml."""


wildcard_constraints:
    stage="[a-z0-9_]+",
    run="[^/]+",


localrules:
    settle,


checkpoint settle:
    "The bytes of a rebuilt run are known now: what hangs on it is decided again."
    input:
        f"results/{BUILD.suite}/{{stage}}/{{run}}/manifest.json",
    output:
        temp(touch(f"results/{BUILD.suite}/{{stage}}/{{run}}/.settled")),
    log:
        f"logs/{BUILD.suite}/{{stage}}/{{run}}.settle.log",
    conda:
        "../envs/deeploop.yaml"


for stage in BUILD.stages:

    rule:
        name:
            stage.name
        input:
            upstream=upstream(stage.name),
            settled=settled(stage.name),
        output:
            BUILD.manifest_pattern(stage.name),
        log:
            BUILD.log_pattern(stage.name),
        localrule: stage.local
        conda:
            "../envs/deeploop.yaml"
        threads: needs(stage.name, "cpus")
        resources:
            mem_mb=needs(stage.name, "memory_mb"),
            runtime=needs(stage.name, "minutes"),
            nodes=needs(stage.name, "nodes"),
            gres=needs(stage.name, "gres"),
        params:
            stage=stage.name,
            run=lambda wildcards: wildcards.get("run", "all"),
            suite=BUILD.suite,
        shell:
            "python -m deeploop run {params.stage} {params.run}"
            " --suite {params.suite} --planned"
