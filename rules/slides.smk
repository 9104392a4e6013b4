"""Slides of many channels: maps between cycles, gains of all markers, one corrected image.

Nothing of a slide is copied: images are read in place.
"""

from unglow.workflow.planned_jobs import corrected_files

corrected = {form: out.slide(name) for form, name in corrected_files(batch).items()}


rule slide_register:
    input:
        images=of_batch(job_params.slide_images),
    output:
        transform=out.move("transform.json"),
        displacement=out.move("displacement.npz"),
        blocks=out.move("blocks.csv"),
        digests=out.digests("slide_register", "move"),
    log:
        out.record("logs", "slide_register_{cycle}", "slide"),
        telemetry=out.record("telemetry", "slide_register_{cycle}", "slide"),
    benchmark:
        out.record("benchmarks", "slide_register_{cycle}", "slide")
    wildcard_constraints:
        sample=one_of(batch.slides),
        cycle=r"\d+-\d+",
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("slide_register"),
        disk_mb=disk_mb("slide_register"),
        runtime=runtime("slide_register"),
        attempt=this_attempt,
    params:
        version=3,
        slide=of_batch(job_params.registered_slide),
        settings=of_batch(job_params.slide_register_settings),
    script:
        "../scripts/slide_register.py"


rule slide_scale:
    input:
        images=of_batch(job_params.slide_images),
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        displacements=of_batch(job_params.slide_maps, name="displacement.npz"),
    output:
        slide=out.slide("slide.json"),
        scale=out.slide("scale.json"),
        gain_maps=out.slide("gain_maps.npz"),
        statistics=out.slide("statistics.npz"),
        digests=out.digests("slide_scale", "slide"),
    log:
        out.record("logs", "slide_scale", "slide"),
        telemetry=out.record("telemetry", "slide_scale", "slide"),
    benchmark:
        out.record("benchmarks", "slide_scale", "slide")
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("slide_scale"),
        disk_mb=disk_mb("slide_scale"),
        runtime=runtime("slide_scale"),
        disk_streams=1,
        attempt=this_attempt,
    params:
        version=2,
        slide=of_batch(job_params.slide_record),
        settings=of_batch(job_params.slide_scale_settings),
        suspect_px=batch.settings.register.suspect_px,
    script:
        "../scripts/slide_scale.py"


rule slide_subtract:
    input:
        images=of_batch(job_params.slide_images),
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        displacements=of_batch(job_params.slide_maps, name="displacement.npz"),
        slide=out.slide("slide.json"),
        scale=out.slide("scale.json"),
        gain_maps=out.slide("gain_maps.npz"),
    output:
        **corrected,
        markers=out.slide("markers_corrected.csv"),
        subtraction=out.slide("subtraction.json"),
        residues=out.slide("residues.npz"),
        overviews=out.slide("overviews.npz"),
        digests=out.digests("slide_subtract", "slide"),
    log:
        out.record("logs", "slide_subtract", "slide"),
        telemetry=out.record("telemetry", "slide_subtract", "slide"),
    benchmark:
        out.record("benchmarks", "slide_subtract", "slide")
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("slide_subtract"),
        disk_mb=disk_mb("slide_subtract"),
        runtime=runtime("slide_subtract"),
        disk_streams=1,
        attempt=this_attempt,
    params:
        version=1,
        slide=of_batch(job_params.slide_record),
        own_cells=of_batch(job_params.slide_own_cells),
        dtype=batch.settings.multiplexed.dtype,
        rounding=batch.settings.multiplexed.rounding,
    script:
        "../scripts/slide_subtract.py"


rule slide_figures:
    input:
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        blocks=of_batch(job_params.slide_maps, name="blocks.csv"),
        slide=out.slide("slide.json"),
        scale=out.slide("scale.json"),
        statistics=out.slide("statistics.npz"),
        subtraction=out.slide("subtraction.json"),
        residues=out.slide("residues.npz"),
        overviews=out.slide("overviews.npz"),
    output:
        figures=directory(out.slide("figures")),
        digests=out.digests("slide_figures", "slide"),
    log:
        out.record("logs", "slide_figures", "slide"),
        telemetry=out.record("telemetry", "slide_figures", "slide"),
    benchmark:
        out.record("benchmarks", "slide_figures", "slide")
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("slide_figures"),
        disk_mb=disk_mb("slide_figures"),
        runtime=runtime("slide_figures"),
        attempt=this_attempt,
    params:
        version=2,
    script:
        "../scripts/slide_figures.py"
