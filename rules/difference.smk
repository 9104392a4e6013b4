"""Difference: post minus scaled pre of one method, and what is left by the others as well."""


rule difference:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        statistics=out.registered("statistics.npz"),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("gain_map.npz"),
        same=of_batch(job_params.same_difference),
    output:
        difference=out.subtracted(store("difference/{method}")),
        histogram=out.subtracted("difference/{method}.histogram.npz"),
        background=out.subtracted("difference/{method}.background.npz"),
        blocks=out.subtracted("difference/{method}.blocks.npz"),
        digests=out.digests("difference_{method}", "subtracted"),
    log:
        out.record("logs", "difference_{method}", "subtracted"),
        telemetry=out.record("telemetry", "difference_{method}", "subtracted"),
    benchmark:
        out.record("benchmarks", "difference_{method}", "subtracted")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("difference"),
        disk_mb=disk_mb("difference"),
        runtime=runtime("difference"),
        attempt=this_attempt,
    params:
        memory=memory("difference"),
        version=6,
        counted=of_batch(counted_methods),
    script:
        "../scripts/difference.py"
