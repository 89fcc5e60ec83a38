"""Models and comparisons that the tests with PyTorch share."""

import torch


def bits(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor.view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def assert_same(found, wanted):
    """Nested values are equal, with types, dtypes, shapes and bits."""
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape) and bits(found) == bits(wanted)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            assert_same(one, other)
    else:
        assert repr(found) == repr(wanted)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.out = torch.nn.Linear(4, 10, bias=False)
        self.out.weight = self.embedding.weight  # tied

    def forward(self, tokens):
        return self.out(self.norm(self.embedding(tokens)))


def trained(seed=0, steps=3, optimizer=None):
    torch.manual_seed(seed)
    model = Net()
    optimizer = (optimizer or torch.optim.AdamW)(model.parameters(), lr=0.1)
    for _ in range(steps):
        train(model, optimizer)
    return model, optimizer


def train(model, optimizer):
    optimizer.zero_grad()
    model(torch.randint(10, (16,))).square().mean().backward()
    optimizer.step()
