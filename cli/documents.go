package cli

import (
	"reflect"

	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/catalogue"
	"github.com/graphrun/graphrun/cli/internal/compare"
	"github.com/graphrun/graphrun/cli/internal/diff"
	"github.com/graphrun/graphrun/cli/internal/explain"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/cli/internal/plan"
	"github.com/graphrun/graphrun/cli/internal/prove"
	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/cli/internal/study"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
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
	"prove":   reflect.TypeFor[prove.Document](),

	"calibrate": reflect.TypeFor[calibrateReport](),
}

// planDocuments maps a flag of the command plan to the type of the document that the flag prints, writes or reads.
var planDocuments = map[string]reflect.Type{
	"certificate": reflect.TypeFor[experiment.Certificate](),
	"problem":     reflect.TypeFor[wcsp.Problem](),
	"solution":    reflect.TypeFor[wcsp.Solution](),
	"strategies":  reflect.TypeFor[plan.StrategiesDocument](),
	"sweep":       reflect.TypeFor[plan.SizesDocument](),
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
