"""An image-text model on the device: Qwen2-VL's, cut to the depth at which its host is half busy.

What a picture costs the host is measured first, with nobody but the loop behind the loader. The
depth of the language model is then chosen so that it takes as many pictures a second as half of the
cores can decode.
"""

from __future__ import annotations

import os
import time
from typing import Any

from overlord_bench import _quiet
from overlord_bench._contenders.gpu.training import reading, trained
from overlord_bench._contenders.hf_vlm import PAD
from overlord_bench._contenders.overlord_vlm import config_of
from overlord_bench._contenders.trainers.models import made, threads_for, wait_for

# By size: hidden, intermediate, heads, keys, most layers; of pictures: width, heads, layers
SIZES = {"tiny": (64, 128, 4, 2, 4, 32, 2, 1), "large": (1536, 8960, 12, 2, 40, 1280, 16, 8)}
FREE_SECONDS = 5.0
_OTHERS = (PAD + 1, PAD + 2, PAD + 3)  # start and end of pictures, clips: none is in the text


def _job(work: dict[str, Any]) -> dict[str, Any]:
    config = config_of(work)
    config["bins"] = work["bins"]
    config["vocabulary"] = work["vocabulary"]
    config["delivery"] = {"microbatch_size": work["rows"]}
    config["sources"]["pairs"]["decode_at"] = work["decode_at"]
    config["runtime"] |= {"constructor_budget": 8 << 30, "payload_budget": 2 << 30}
    config["runtime"]["private_copy_limit"] = 8 << 30
    return config


def _model(work: dict[str, Any]) -> Any:
    import transformers

    hidden, between, heads, keys, layers, width, eyes, depth = SIZES[work["model"]]
    section = hidden // heads // 2
    text = {
        "vocab_size": work["vocabulary"],
        "hidden_size": hidden,
        "intermediate_size": between,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "use_cache": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e6,
            "mrope_section": [section - 2 * (section * 3 // 8), section * 3 // 8, section * 3 // 8],
        },
    }
    vision = {"depth": depth, "embed_dim": width, "num_heads": eyes, "hidden_size": hidden}
    start, end, clip = _OTHERS
    config = transformers.Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=PAD,
        vision_start_token_id=start,
        vision_end_token_id=end,
        video_token_id=clip,
    )
    return made(lambda: transformers.Qwen2VLForConditionalGeneration(config), work["device"])


def _cores_per_picture(loader: Any) -> float:
    """Core seconds that a picture costs, with a loop that does nothing."""
    pictures, moment = 0, None
    until = time.perf_counter() + FREE_SECONDS
    while time.perf_counter() < until or moment is None or not pictures:
        batch = next(loader)
        if moment is None:  # the engine has started
            moment = _quiet.now()
            until = moment.wall + FREE_SECONDS
            continue
        pictures += sum(len(media) for media in batch.media.values())
    return (_quiet.now().system - moment.system) / pictures


def _seconds(model: Any, inputs: dict[str, Any], device: str) -> float:
    for attempt in range(2):  # the first makes its kernels and memory
        wait_for(device)
        began = time.perf_counter()
        model(**inputs).loss.backward()
        wait_for(device)
        model.zero_grad()
        if attempt:
            break
    return time.perf_counter() - began


def _cut(model: Any, wanted_s: float, inputs: dict[str, Any], device: str) -> int:
    """Leave so many layers that a microbatch takes these seconds."""
    layers = model.model.language_model.layers
    most = len(layers)
    few = max(1, most // 8)
    whole = _seconds(model, inputs, device)
    model.model.language_model.layers = layers[:few]
    part = _seconds(model, inputs, device)
    each = max((whole - part) / max(most - few, 1), 1e-9)
    kept = max(1, min(most, round(few + (wanted_s - part) / each)))
    model.model.language_model.layers = layers[:kept]
    model.config.get_text_config().num_hidden_layers = kept
    return kept


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Where the device's time goes, beside a host that decodes."""
    import overlord as ol

    threads_for(work["device"])
    model = _model(work)
    with ol.job(_job(work)).train(rank=0, **reading(work)) as loader:
        cost = _cores_per_picture(loader)
        batch = next(loader)
        inputs = batch.to(work["device"]).model_inputs("qwen_vl")
        rate = work["busy"] * len(os.sched_getaffinity(0)) / cost
        wanted = sum(len(media) for media in batch.media.values()) / rate
        layers = _cut(model, wanted, inputs, work["device"])
        del inputs, batch
        found = trained(loader, model, lambda b: b.model_inputs("qwen_vl"), work)
    return {**found, "layers": layers, "core_ms_per_picture": cost * 1e3}
