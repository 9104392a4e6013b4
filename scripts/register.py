"""Adapter: find the map from post to pre."""

from pathlib import Path

from unglow.jobs.context import Job

with Job.from_script(snakemake) as job:
    from unglow.core.settings import from_json
    from unglow.images.zarr import open_store
    from unglow.registration.block_table import write_blocks
    from unglow.registration.settings import RegisterSettings
    from unglow.stages.register import read_hints, read_shared_map, register_stores
    from unglow.transform import displacement

    job.limit_memory()
    chosen = dict(snakemake.params.settings)
    given = {name: chosen.pop(name) for name in ("from", "cycles") if name in chosen}
    settings = from_json(RegisterSettings, chosen)
    post, pre = (open_store(Path(p).parent) for p in (snakemake.input.post, snakemake.input.pre))
    shared = read_shared_map(given, snakemake.input, post.shape)
    hints = read_hints(post, pre, snakemake.input)
    workers = job.choose_workers()
    found = register_stores(post, pre, settings, workers=workers, hints=hints, shared=shared)
    write_blocks(Path(snakemake.output.blocks), found.blocks)
    # Snakemake wants the file of the field whether or not there is one
    displacement.save(Path(snakemake.output.displacement), found.transform.displacement)
    found.transform.save(Path(snakemake.output.transform))
    job.count(pixels=post.shape[0] * post.shape[1])
