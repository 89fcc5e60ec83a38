#!/usr/bin/env python3
"""Records which memory PyTorch allocates and frees while it runs three small programs: record.py [FOLDER]

Writes FOLDER/NAME.txt (default: this folder) for each program: a number for each event, in the order in which they
happened. A positive one is an allocation of so many bytes. A negative one, -K, frees the K-th allocation of the file.
Needs PyTorch. Sizes do not depend on the machine, except where kernels of PyTorch choose their own scratch memory.
"""

import json
import os
import sys
import tempfile
import textwrap

import torch


def transformer():
    """Training on sentences of different lengths."""
    layer = torch.nn.TransformerEncoderLayer(d_model=256, nhead=4, dim_feedforward=1024, batch_first=True)
    model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                                torch.nn.Linear(256, 4000))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())
    for length in (180, 37, 256, 64, 129, 200, 91):
        yield
        optimizer.zero_grad()
        logits = model(torch.randn(8, length, 256))
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.randint(4000, (8 * length,))).backward()
        optimizer.step()


def convolutions():
    """Training on images of different sizes, the last batch smaller."""
    channels = (3, 32, 64, 128)
    layers = []
    for before, after in zip(channels, channels[1:]):
        layers += [torch.nn.Conv2d(before, after, 3, stride=2, padding=1), torch.nn.BatchNorm2d(after), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 100))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch, side in ((16, 128), (16, 160), (16, 96), (16, 192), (16, 128), (5, 160)):
        yield
        optimizer.zero_grad()
        model(torch.randn(batch, 3, side, side)).square().sum().backward()
        optimizer.step()


def generation():
    """Text that grows word by word, with keys and values of all words before it, for two requests in turns."""
    embedding = torch.nn.Embedding(5000, 512)
    layers = [torch.nn.Linear(512, 3 * 512) for _ in range(4)]
    head = torch.nn.Linear(512, 5000)
    with torch.no_grad():
        for start in (300, 90):
            caches = [torch.randn(2, 8, start, 64) for _ in layers]
            word = torch.zeros(1, dtype=torch.long)
            for _ in range(40):
                yield
                hidden = embedding(word)
                for i, layer in enumerate(layers):
                    query, key, value = layer(hidden).view(3, 8, 1, 64)
                    caches[i] = torch.cat([caches[i], torch.stack([key, value])], dim=2)
                    weights = torch.softmax(query @ caches[i][0].transpose(1, 2) / 8, dim=-1)
                    hidden = hidden + (weights @ caches[i][1]).reshape(1, 512)
                word = head(hidden).argmax(dim=-1)


def events(program):
    """(address, bytes) of each event of memory while `program` runs; bytes are negative for what is freed."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in program():
            pass
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        with open(path) as file:
            found = [event for event in json.load(file)["traceEvents"] if event.get("name") == "[memory]"]
    found.sort(key=lambda event: event["ts"])
    return [(event["args"]["Addr"], event["args"]["Bytes"]) for event in found]


def numbers(found):
    live, written, count = {}, [], 0
    for address, size in found:
        if size > 0:
            count += 1
            live[address] = count
            written.append(size)
        elif address in live:  # not what was allocated before the program
            written.append(-live.pop(address))
    return written


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.realpath(__file__))
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for program in (transformer, convolutions, generation):
        written = numbers(events(program))
        with open(os.path.join(folder, f"{program.__name__}.txt"), "w") as file:
            print(textwrap.fill(" ".join(map(str, written)), 120, break_on_hyphens=False), file=file)
        print(f"{program.__name__}: {len(written)} events, {sum(n for n in written if n > 0) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
