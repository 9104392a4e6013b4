"""Plan: channels and store layouts of a pair, once, from its headers and a sample of blocks."""


rule plan:
    input:
        post=raw_post,
        pre=raw_pre,
    output:
        out.pair("plan.json"),
        digests=out.digests("plan", "pair"),
    log:
        out.record("logs", "plan", "pair"),
        telemetry=out.record("telemetry", "plan", "pair"),
    benchmark:
        out.record("benchmarks", "plan", "pair")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("plan"),
        disk_mb=1,
        runtime=runtime(0.01),
        attempt=this_attempt,
    params:
        version=2,
        channel=channel_setting,
        post=header_of("post"),
        pre=header_of("pre"),
    script:
        "../scripts/plan.py"
