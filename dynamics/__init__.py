"""Dynamics: sequence classes, systems of ODEs on compiled right-hand sides, integration, trajectories."""

from snapdyn.dynamics.classes.stored_sequences import DataSet, data_set
from snapdyn.dynamics.classes.symmetric import ClassKind, SymmetricClasses, symmetric_classes
from snapdyn.dynamics.classes.synthetic import random_classes, single_common_token, syn_medium, syn_small
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.integration.driver import integrate, integrate_many, whole_run
from snapdyn.dynamics.integration.request import Event, State, log_times
from snapdyn.dynamics.integration.stability import growth_of_differences
from snapdyn.dynamics.rules import RULES, Adam, GradientDescent, SignDescent
from snapdyn.dynamics.systems import SYSTEMS
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import ExpansionWarning, FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.own.linear_conserved import LinearConserved, linear_conserved
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken
from snapdyn.dynamics.text.text_classes import TextClasses, from_text
from snapdyn.dynamics.traces.reading import read_trace
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.dynamics.training.descent import SGD, sgd, sgd_runs
from snapdyn.dynamics.training.explicit_steps import descend, descend_samples
from snapdyn.dynamics.training.sensitivities import Sensitivity, sensitivity
from snapdyn.dynamics.training.steps import momentum_clock
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.dynamics.training.transformer.trainer import train_transformer
from snapdyn.dynamics.trajectories.trajectory import EventRecord, Trajectory, load

__all__ = [
    "RULES",
    "SGD",
    "SYSTEMS",
    "Adam",
    "ClassKind",
    "DataSet",
    "Event",
    "EventRecord",
    "ExpansionWarning",
    "FiniteLengthMeanField",
    "FrozenDecoder",
    "GradientDescent",
    "LinearConserved",
    "MeanField",
    "ModifiedDecoder",
    "Sensitivity",
    "SequenceClasses",
    "SignDescent",
    "SingleCommonToken",
    "State",
    "SymmetricClasses",
    "System",
    "TextClasses",
    "Trace",
    "Trajectory",
    "TransformerRun",
    "data_set",
    "descend",
    "descend_samples",
    "from_text",
    "growth_of_differences",
    "integrate",
    "integrate_many",
    "linear_conserved",
    "load",
    "log_times",
    "momentum_clock",
    "random_classes",
    "read_trace",
    "sensitivity",
    "sgd",
    "sgd_runs",
    "single_common_token",
    "symmetric_classes",
    "syn_medium",
    "syn_small",
    "train_transformer",
    "whole_run",
]
