from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from deeploop.analysis import statistics
from deeploop.analysis.alignment import Settings, common_share, gram, measure
from deeploop.analysis.subjects import Module, Outcome, SharedMatrix, Subject, hrm, looped_gpt
from deeploop.analysis.visits import visit_gradients, visited
from deeploop.errors import UserError
from deeploop.nn.config import Backbone, GPTConfig, Scaling
from deeploop.nn.gpt import LoopedGPT, build
from deeploop.nn.hrm import HRM, initialise
from deeploop.nn.hrm_config import HRMConfig
from deeploop.nn.hrm_halting import Batch, Exploration

SHAPE = Backbone(hidden_size=16, layers=2, heads=2, context_length=12, vocab_size=29, ffn_hidden=21)


def gpt(loops: int = 3, p: float = 0.5, placement: str = "post") -> LoopedGPT:
    shape = SHAPE.model_copy(update={"norm_placement": placement})
    rule = Scaling(alpha_exponent=p, beta_exponent=p)
    return build(GPTConfig(backbone=shape, loops=loops, scaling=rule), seed=2, dtype=torch.float64)


def text(seed: int = 1) -> tuple[Tensor, Tensor]:
    drawn = torch.randint(29, (3, 13), generator=torch.Generator().manual_seed(seed))
    return drawn[:, :-1], drawn[:, 1:]


def small_hrm(**settings: object) -> HRM:
    config = HRMConfig(
        hidden_size=16,
        heads=2,
        puzzle_embedding_size=16,
        h_layers=1,
        l_layers=2,
        l_cycles=3,
        gradient="last_cycle",
        precision="fp64",
        sequence_length=9,
        vocab_size=12,
        identifiers=5,
        halt_max_steps=2,
    ).model_copy(update=settings)
    model = HRM(config)
    initialise(model, 1)
    return model


def puzzles() -> Batch:
    draw = torch.Generator().manual_seed(3)
    return Batch(
        torch.randint(12, (4, 9), generator=draw),
        torch.randint(12, (4, 9), generator=draw),
        torch.tensor([1, 2, 3, 4]),
    )


DRAWS = Exploration(torch.ones(4), torch.full((4,), 2))
SUBJECTS = {
    "post": lambda: (looped_gpt(gpt()), text()),
    "pre": lambda: (looped_gpt(gpt(placement="pre")), text()),
    "hrm": lambda: (hrm(small_hrm(), DRAWS), puzzles()),
}


@pytest.mark.parametrize("kind", SUBJECTS)
def test_gradients_of_visits_add_up_to_the_tied_gradient(kind: str) -> None:
    subject, batch = SUBJECTS[kind]()
    tied = subject.forward(batch).loss()
    tied.backward()
    with visited(subject.model, subject.blocks) as wrapped:
        loss = subject.forward(batch).loss()
        found = visit_gradients(loss, wrapped)
    assert torch.equal(loss, tied)
    for block, visits in found.items():
        for name, parameter in subject.model.get_submodule(block).named_parameters():
            total = sum(visit[name] for visit in visits)
            assert isinstance(total, Tensor)
            assert (total - parameter.grad).norm() <= 1e-12 * parameter.grad.norm()
    rounds = {len(visits) for visits in found.values()}
    assert rounds == ({3} if kind != "hrm" else {1, 3})


@pytest.mark.parametrize("kind", SUBJECTS)
def test_the_model_is_left_as_it_was(kind: str) -> None:
    subject, batch = SUBJECTS[kind]()
    names = [name for name, _ in subject.model.named_modules()]
    with pytest.raises(ZeroDivisionError), visited(subject.model, subject.blocks):
        raise ZeroDivisionError
    measure(subject, [batch], Settings(probes=1, resamples=10))
    assert [name for name, _ in subject.model.named_modules()] == names
    assert all(parameter.grad is None for parameter in subject.model.parameters())


def test_visits_are_those_of_an_untied_stack() -> None:
    model, (inputs, targets) = gpt(loops=3), text()
    subject = looped_gpt(model)
    with visited(model, subject.blocks) as wrapped:
        found = visit_gradients(subject.forward((inputs, targets)).loss(), wrapped)
    x = model.input_norm(model.embedding[inputs])
    cos, sin = model.cos[:12], model.sin[:12]
    copies = []
    for _ in range(3):
        for block in model.blocks:
            copies.append({k: v.detach().clone() for k, v in block.named_parameters()})
            leaves = {k: v.requires_grad_() for k, v in copies[-1].items()}
            x = functional_call(block, leaves, (x, cos, sin))
    logits = model.final_norm(x) @ model.embedding.T
    nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    for visit, leaves in enumerate(copies):
        for name, leaf in leaves.items():
            expected = leaf.grad
            assert expected is not None
            got = found[f"blocks.{visit % 2}"][visit // 2][name]
            assert (got - expected).norm() <= 1e-12 * expected.norm()


class Iterated(nn.Module):
    """x <- W x, twice: its sensitivities can be written down."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(3, 3, bias=False).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.block(x))


def iterated(model: Iterated) -> Subject:
    matrix = SharedMatrix("block.map.w", "block", "weight", slice(None))

    def forward(x: Tensor) -> Outcome:
        y = model(x)
        return Outcome(lambda: y.square().sum(), y)

    return Subject(model, (Module("loop", ("block",), (matrix,)),), forward)


def once() -> Subject:
    model = nn.Sequential(nn.Linear(3, 3))
    matrix = SharedMatrix("0.w", "0", "weight", slice(None))

    def forward(x: Tensor) -> Outcome:
        y = model(x)
        return Outcome(lambda: y.sum(), y)

    return Subject(model, (Module("loop", ("0",), (matrix,)),), forward)


def test_sensitivities_and_amplification_are_the_jacobians() -> None:
    torch.manual_seed(0)
    model, x = Iterated(), torch.randn(1, 2, 3, dtype=torch.float64)
    w = model.block.weight.detach()
    jacobian = torch.func.jacrev(lambda a, b: x @ a.T @ b.T, argnums=(0, 1))(w, w)
    operators = [part.reshape(6, 9) for part in jacobian]
    products = torch.stack([torch.stack([(u * v).sum() for v in operators]) for u in operators]) / 6
    found = measure(iterated(model), [x] * 40, Settings(probes=100, resamples=10))
    loop = found["modules"]["loop"]
    expected = statistics.norms(products.numpy())
    assert loop["sensitivity_norms"] == pytest.approx(expected, rel=0.03)
    updates = torch.func.grad(lambda a, b: (x @ a.T @ b.T).square().sum(), argnums=(0, 1))(w, w)
    flat = [update.flatten() for update in updates]
    tied = sum(u @ (flat[0] + flat[1]) for u in operators)
    untied = sum(u @ g for u, g in zip(operators, flat, strict=True))
    assert isinstance(tied, Tensor)
    assert isinstance(untied, Tensor)
    assert found["amplification"]["value"] == pytest.approx(
        float(tied.norm() / untied.norm()), rel=1e-5
    )
    defined = statistics.defined_kappa(products.numpy()[None], gram(flat).numpy()[None])
    assert loop["kappa_defined"]["value"] == pytest.approx(float(defined), rel=0.03)


@pytest.mark.parametrize("kind", SUBJECTS)
def test_every_kappa_lies_between_0_and_its_rounds(kind: str) -> None:
    subject, batch = SUBJECTS[kind]()
    found = measure(subject, [batch, batch], Settings(probes=1, resamples=10))
    for module in found["modules"].values():
        rounds = module["rounds"]
        values = [module["kappa"]["value"], module["kappa_defined"]["value"]]
        values += [module["sensitivity_kappa"]["value"], *module["blocks"].values()]
        values += [matrix["kappa"] for matrix in module["matrices"].values()]
        assert all(0 <= value <= rounds + 1e-5 for value in values)
        assert len(module["gradient_norms"]) == len(module["common"]) == rounds
        assert np.diag(module["cosines"]) == pytest.approx(np.ones(rounds))
    if kind == "hrm":  # a single visible visit: the paper's kappa_H = 1
        assert found["modules"]["H"]["kappa"]["value"] == 1.0
        assert found["modules"]["L"]["rounds"] == 3
    assert found == measure(subject, [batch, batch], Settings(probes=1, resamples=10))


def test_shrunk_branches_are_fully_aligned_at_the_start() -> None:
    """With beta near 0 the stream stands still, so all visits see one input."""
    aligned = measure(looped_gpt(gpt(p=2.0)), [text()], Settings(resamples=10, probes=0))
    assert aligned["modules"]["loop"]["kappa"]["value"] == pytest.approx(3.0, abs=0.01)
    assert aligned["amplification"] is None


vectors = st.integers(1, 6).flatmap(
    lambda rounds: st.lists(
        st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=5), min_size=rounds, max_size=rounds
    )
)


@given(vectors)
def test_kappa_is_between_0_and_the_rounds(found: list[list[float]]) -> None:
    products = gram([torch.tensor(vector, dtype=torch.float64) for vector in found]).numpy()
    value = statistics.kappa(products)
    if np.trace(products) > 1e-12:
        assert -1e-9 <= value <= len(found) + 1e-9


@given(vectors, vectors)
def test_defined_kappa_is_between_0_and_the_rounds(
    u: list[list[float]], g: list[list[float]]
) -> None:
    rounds = min(len(u), len(g))
    grams = [
        gram([torch.tensor(vector, dtype=torch.float64) for vector in side[:rounds]]).numpy()[None]
        for side in (u, g)
    ]
    value = statistics.defined_kappa(*grams)
    if min(np.trace(side[0]) for side in grams) > 1e-12:
        assert -1e-9 <= value <= rounds * (1 + 1e-9)


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_kappa_of_identical_orthogonal_and_cancelling_visits(rounds: int) -> None:
    same = gram([torch.arange(1.0, 9.0)] * rounds).numpy()
    assert statistics.kappa(same) == rounds
    assert statistics.defined_kappa(same[None], same[None]) == pytest.approx(rounds, rel=1e-12)
    assert statistics.kappa(gram(list(torch.eye(rounds))).numpy()) == 1
    there_and_back = gram([torch.ones(4), -torch.ones(4)]).numpy()
    assert statistics.kappa(there_and_back) == 0
    assert statistics.mean_pair_cosine(there_and_back) == -1


def test_intervals_cover_the_mean_and_shrink_with_batches() -> None:
    generator = np.random.default_rng(0)
    hits, widths = 0, {}
    for trial in range(200):
        sample = generator.normal(1.0, 1.0, 40)
        found = statistics.estimated(lambda mean: mean, sample, resamples=400, seed=trial)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.0 <= found.high
        widths[40] = found.high - found.low
    assert 0.88 <= hits / 200 <= 0.99
    many = statistics.estimated(
        lambda mean: mean, generator.normal(size=1600), resamples=400, seed=0
    )
    assert many.low is not None
    assert many.high is not None
    assert many.high - many.low < widths[40] / 4


def test_common_is_the_share_of_energy_that_tokens_have_alike() -> None:
    alike = torch.ones(2, 3, 4)
    assert common_share(alike) == 1
    apart = torch.tensor([1.0, -1.0])[:, None, None].expand(2, 3, 4)
    assert common_share(apart) == 0
    assert common_share(alike + apart) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: looped_gpt(gpt(loops=1)), "with R = 1 no block is visited twice"),
        (lambda: hrm(small_hrm(gradient="last_step"), DRAWS), "gradient: last_cycle"),
        (lambda: hrm(small_hrm(l_cycles=1), DRAWS), "l_cycles above 1"),
        (lambda: measure(looped_gpt(gpt()), [], Settings()), "at least one batch"),
        (lambda: measure(once(), [torch.ones(1, 1, 3)], Settings()), "no block .* visited twice"),
    ],
)
def test_wrong_inputs_are_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=message):
        call()


def test_a_block_that_is_not_there() -> None:
    with pytest.raises(UserError, match=r"no block 'layers\.0'"), visited(gpt(), ["layers.0"]):
        pass
