package cli

import (
	"reflect"

	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/catalogue"
	"github.com/graphrun/graphrun/cli/internal/check"
	"github.com/graphrun/graphrun/cli/internal/compare"
	"github.com/graphrun/graphrun/cli/internal/diff"
	"github.com/graphrun/graphrun/cli/internal/explain"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/cli/internal/plan"
	"github.com/graphrun/graphrun/cli/internal/prove"
	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/cli/internal/study"
	"github.com/graphrun/graphrun/cli/internal/tune"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// documents maps the name of a command to the type of the document that the command prints with --json.
var documents = map[string]reflect.Type{
	"infer":   reflect.TypeFor[infer.Document](),
	"plan":    reflect.TypeFor[plan.Document](),
	"run":     reflect.TypeFor[run.Document](),
	"bench":   reflect.TypeFor[bench.Document](),
	"compare": reflect.TypeFor[compare.Document](),
	"study":   reflect.TypeFor[study.Document](),
	"diff":    reflect.TypeFor[diff.Document](),
	"explain": reflect.TypeFor[explain.Document](),
	"verify":  reflect.TypeFor[experiment.Verdict](),
	"ops":     reflect.TypeFor[catalogue.Document](),
	"check":   reflect.TypeFor[check.Document](),
	"prove":   reflect.TypeFor[prove.Document](),
	"tune":    reflect.TypeFor[tune.Document](),

	"calibrate": reflect.TypeFor[calibrateReport](),
}

// flagDocument is the document that a flag of a command prints, writes or reads.
type flagDocument struct {
	command      string
	documentType reflect.Type
}

// flagDocuments maps the name of a flag to its document.
var flagDocuments = map[string]flagDocument{
	"tuned":       {"tune", reflect.TypeFor[pricing.Tuned]()},
	"certificate": {"plan", reflect.TypeFor[experiment.Certificate]()},
	"problem":     {"plan", reflect.TypeFor[experiment.ProblemFile]()},
	"solution":    {"plan", reflect.TypeFor[wcsp.Solution]()},
	"strategies":  {"plan", reflect.TypeFor[plan.StrategiesDocument]()},
	"sweep":       {"plan", reflect.TypeFor[plan.SizesDocument]()},
	"missing":     {"ops", reflect.TypeFor[catalogue.MissingDocument]()},
	"onnx":        {"ops", reflect.TypeFor[catalogue.OperatorsDocument]()},
}

// allowedWords maps the name of a set of strings to the set. A field of a document with the struct tag `of:"NAME"`
// holds one of the strings of the set NAME. The schema lists these strings.
var allowedWords = map[string]func() []string{
	"dtype": func() []string { return format.Strings(tensor.DTypes()) },
	"flag":  infer.Flags,
	"fast_setup": func() []string {
		return format.Strings([]iter.FastSetup{iter.FastNone, iter.FastContiguous, iter.FastChannelsLast,
			iter.FastNonOverlappingDense})
	},
	"kind":       catalogue.Kinds,
	"rule":       inspect.LayoutRules,
	"difference": experiment.StepDifferences,
	"access":     func() []string { return []string{"contiguous", "broadcast", "staged"} },
}
