"""Dynamics: sequence classes, systems of ODEs on compiled right-hand sides, integration, trajectories."""

from snapdyn.dynamics.assumptions import Condition
from snapdyn.dynamics.builders import random_classes, single_common_token, syn_medium, syn_small
from snapdyn.dynamics.classes import SequenceClasses
from snapdyn.dynamics.clocks import momentum_clock
from snapdyn.dynamics.ensemble import integrate_many
from snapdyn.dynamics.errors import InputError
from snapdyn.dynamics.events import Event, State
from snapdyn.dynamics.fluctuations import Fluctuations, fluctuations
from snapdyn.dynamics.integration import integrate, log_times, whole_run
from snapdyn.dynamics.sgd import SGD, sgd, sgd_runs
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import ExpansionWarning, FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken
from snapdyn.dynamics.text import TextClasses, from_text
from snapdyn.dynamics.trajectory import EventRecord, Trajectory, load
from snapdyn.dynamics.transformer import train_transformer
from snapdyn.dynamics.transformer_runs import TransformerRun

__all__ = [
    "SGD",
    "Condition",
    "Event",
    "EventRecord",
    "ExpansionWarning",
    "FiniteLengthMeanField",
    "Fluctuations",
    "FrozenDecoder",
    "InputError",
    "MeanField",
    "ModifiedDecoder",
    "SequenceClasses",
    "SingleCommonToken",
    "State",
    "System",
    "TextClasses",
    "Trajectory",
    "TransformerRun",
    "fluctuations",
    "from_text",
    "integrate",
    "integrate_many",
    "load",
    "log_times",
    "momentum_clock",
    "random_classes",
    "sgd",
    "sgd_runs",
    "single_common_token",
    "syn_medium",
    "syn_small",
    "train_transformer",
    "whole_run",
]
