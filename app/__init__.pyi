# The public names. Type checkers and editors read them here, and `__init__.py` where each of them lives.

from snapdyn import (
    analytic as analytic,
    dynamics as dynamics,
    experiments as experiments,
    figures as figures,
    validation as validation,
)
from snapdyn.core.errors import (
    InputError as InputError,
)
from snapdyn.dynamics import (
    SGD as SGD,
    Adam as Adam,
    ClassKind as ClassKind,
    DataSet as DataSet,
    Event as Event,
    FiniteLengthMeanField as FiniteLengthMeanField,
    FrozenDecoder as FrozenDecoder,
    GradientDescent as GradientDescent,
    MeanField as MeanField,
    ModifiedDecoder as ModifiedDecoder,
    Sensitivity as Sensitivity,
    SequenceClasses as SequenceClasses,
    SignDescent as SignDescent,
    SingleCommonToken as SingleCommonToken,
    SymmetricClasses as SymmetricClasses,
    System as System,
    TextClasses as TextClasses,
    Trace as Trace,
    Trajectory as Trajectory,
    TransformerRun as TransformerRun,
    data_set as data_set,
    descend as descend,
    descend_samples as descend_samples,
    from_text as from_text,
    integrate as integrate,
    integrate_many as integrate_many,
    linear_conserved as linear_conserved,
    load as load,
    log_times as log_times,
    random_classes as random_classes,
    read_trace as read_trace,
    sensitivity as sensitivity,
    sgd as sgd,
    sgd_runs as sgd_runs,
    single_common_token as single_common_token,
    symmetric_classes as symmetric_classes,
    syn_medium as syn_medium,
    syn_small as syn_small,
    train_transformer as train_transformer,
)
from snapdyn.dynamics.observables import (
    Observable as Observable,
)
from snapdyn.figures import (
    FigureEntry as FigureEntry,
)
from snapdyn.registration import (
    register as register,
)
from snapdyn.validation import (
    Box as Box,
    Claim as Claim,
    Evidence as Evidence,
    Family as Family,
    Fit as Fit,
    IdentifiabilityWarning as IdentifiabilityWarning,
    Instance as Instance,
    InstanceReport as InstanceReport,
    Measured as Measured,
    Picture as Picture,
    Property as Property,
    Requirement as Requirement,
    boundary as boundary,
    check as check,
    claim as claim,
    compare as compare,
    fit as fit,
    ladder as ladder,
    ladder_of as ladder_of,
    validate as validate,
)

__version__: str
