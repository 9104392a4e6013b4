"""Figures: for judging the results, drawn from overviews and small files."""

# Only where the variants of a sweep share a registration; else they are drawn with the others.
if figures_of("figures_registration", out):

    rule figures_registration:
        input:
            post=out.ingested(store("post")),
            pre=out.ingested(store("pre")),
            aligned=out.registered(store("aligned_pre")),
            transform=out.registered("transform.json"),
            displacement=out.registered("details/displacement.npz"),
            blocks=out.registered("details/blocks.csv"),
        output:
            **figures("figures_registration"),
        log:
            **logs("figures_registration"),
        benchmark:
            record("benchmarks", "figures_registration")
        group:
            figures_group
        conda:
            "../envs/unglow.yaml"
        threads: threads_of["figures_registration"]
        resources:
            **resources("figures_registration"),
        params:
            memory=memory("figures_registration"),
            version=12,
        script:
            "../scripts/figures.py"


rule figures:
    input:
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
        aligned=out.registered(store("aligned_pre")),
        transform=out.registered("transform.json"),
        displacement=out.registered("details/displacement.npz"),
        blocks=out.registered("details/blocks.csv"),
        statistics=out.registered("details/statistics.npz"),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("details/gain_map.npz"),
        difference=out.subtracted(store("difference")),
        histogram=out.subtracted("details/difference.histogram.npz"),
        table=out.detected("candidates.csv"),
        detection=out.detected("details/detection.json"),
        artefacts=out.detected("artefacts.geojson"),
        search_counts=out.detected("details/search.npz"),
    output:
        **figures("figures"),
    log:
        **logs("figures"),
    benchmark:
        record("benchmarks", "figures")
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["figures"]
    resources:
        **resources("figures"),
    params:
        memory=memory("figures"),
        version=13,
    script:
        "../scripts/figures.py"
