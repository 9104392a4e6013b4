"""Figures: for judging the results, drawn from overviews and small files."""

# Only where the variants of a sweep share a registration; else they are drawn with the others.
if figures_of("figures_registration", out):

    rule figures_registration:
        input:
            post="<results>/<ingested>/post.ome.zarr/zarr.json",
            pre="<results>/<ingested>/pre.ome.zarr/zarr.json",
            aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
            transform="<results>/<registered>/transform.json",
            displacement="<results>/<registered>/details/displacement.npz",
            blocks="<results>/<registered>/details/blocks.csv",
        output:
            **figures("figures_registration"),
            digests="<results>/<registered>/details/digests/figures_registration.sha256",
        log:
            logs="<logs>/<registered>/figures_registration.log",
            telemetry="<telemetry>/<registered>/figures_registration.jsonl",
        benchmark:
            "<benchmarks>/<registered>/figures_registration.tsv"
        group:
            figures_group
        conda:
            "../envs/unglow.yaml"
        threads: threads_of["figures_registration"]
        resources:
            **resources("figures_registration"),
        params:
            memory=memory("figures_registration"),
            version=version_of["figures_registration"],
        script:
            "../scripts/figures.py"


rule figures:
    input:
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        pre="<results>/<ingested>/pre.ome.zarr/zarr.json",
        aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
        transform="<results>/<registered>/transform.json",
        displacement="<results>/<registered>/details/displacement.npz",
        blocks="<results>/<registered>/details/blocks.csv",
        statistics="<results>/<registered>/details/statistics.npz",
        scale="<results>/<subtracted>/scale.json",
        gain_map="<results>/<subtracted>/details/gain_map.npz",
        difference="<results>/<subtracted>/difference.ome.zarr/zarr.json",
        histogram="<results>/<subtracted>/details/difference.histogram.npz",
        table="<results>/<detected>/candidates.csv",
        detection="<results>/<detected>/details/detection.json",
        artefacts="<results>/<detected>/artefacts.geojson",
        search_counts="<results>/<detected>/details/search.npz",
    output:
        **figures("figures"),
        digests="<results>/<detected>/details/digests/figures.sha256",
    log:
        logs="<logs>/<detected>/figures.log",
        telemetry="<telemetry>/<detected>/figures.jsonl",
    benchmark:
        "<benchmarks>/<detected>/figures.tsv"
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["figures"]
    resources:
        **resources("figures"),
    params:
        memory=memory("figures"),
        version=version_of["figures"],
    script:
        "../scripts/figures.py"
