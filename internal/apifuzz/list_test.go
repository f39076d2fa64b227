package apifuzz

import (
	"reflect"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/conv"
	"github.com/graphrun/graphrun/kernels/index"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/product"
	"github.com/graphrun/graphrun/kernels/quantised"
	"github.com/graphrun/graphrun/kernels/reduce"
	"github.com/graphrun/graphrun/kernels/sequence"
	"github.com/graphrun/graphrun/kernels/view"
	"github.com/graphrun/graphrun/kernels/window"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/sym/contiguity"
	"github.com/graphrun/graphrun/tensor"
)

// packages are the public packages, by folder. The last part of the folder is the name.
var packages = []string{".", "sym", "sym/contiguity", "tensor", "expr", "iter", "iter/axes", "graph", "graphfile",
	"kernels", "passes", "passes/layout", "passes/layout/wcsp", "passes/layout/wcsp/verify", "exec", "npz", "safetensors",
	"onnx", "kernels/conv", "kernels/index", "kernels/pointwise", "kernels/product", "kernels/quantised",
	"kernels/reduce", "kernels/sequence", "kernels/view", "kernels/window"}

// functions lists every exported function by package and name. A generic one is there
// for each instance that is called, with what tells it from the others after a slash.
var functions = joined(exprFunctions, iterFunctions, map[string]any{
	"contiguity.Prove": contiguity.Prove,

	"sym.Fork":         sym.Fork[int],
	"sym.Ints":         sym.Ints,
	"sym.Join":         sym.Join[int],
	"sym.NewEnv":       sym.NewEnv,
	"sym.NewEvaluator": sym.NewEvaluator,
	"sym.Of":           sym.Of,
	"sym.Parse":        sym.Parse,
	"sym.ParseBool":    sym.ParseBool,
	"sym.Truth":        sym.Truth,
	"sym.Where":        sym.Where,

	"tensor.BoolScalar":        tensor.BoolScalar,
	"tensor.BF16Of":            tensor.BF16Of,
	"tensor.Broadcast":         tensor.Broadcast,
	"tensor.BroadcastSizes":    tensor.BroadcastSizes,
	"tensor.CanCast":           tensor.CanCast,
	"tensor.ComplexScalar":     tensor.ComplexScalar,
	"tensor.ContiguousStrides": tensor.ContiguousStrides,
	"tensor.Converter":         tensor.Converter,
	"tensor.CopyElements":      tensor.CopyElements,
	"tensor.DTypeOf":           tensor.DTypeOf[float32],
	"tensor.DTypes":            tensor.DTypes,
	"tensor.ParsePredicate":    tensor.ParsePredicate,
	"tensor.Predicates":        tensor.Predicates,
	"tensor.DenseStrides":      tensor.DenseStrides,
	"tensor.DenseStridesOf":    tensor.DenseStridesOf,
	"tensor.Empty":             tensor.Empty,
	"tensor.FloatFor":          tensor.FloatFor,
	"tensor.FloatScalar":       tensor.FloatScalar,
	"tensor.FromSlice/float32": tensor.FromSlice[float32],
	"tensor.FromSlice/bool":    tensor.FromSlice[bool],
	"tensor.HalfOf":            tensor.HalfOf,
	"tensor.InferSize":         tensor.InferSize,
	"tensor.IntScalar":         tensor.IntScalar,
	"tensor.ListString":        tensor.ListString,
	"tensor.Must":              tensor.Must,
	"tensor.New":               tensor.New,
	"tensor.NewFormat":         tensor.NewFormat,
	"tensor.NewOrder":          tensor.NewOrder,
	"tensor.NewType":           tensor.NewType,
	"tensor.CheckSizes":        tensor.CheckSizes,
	"tensor.NewTypeFormat":     tensor.NewTypeFormat,
	"tensor.OrderOf":           tensor.OrderOf,
	"tensor.NewStorage":        tensor.NewStorage,
	"tensor.CheckMemory":       tensor.CheckMemory,
	"tensor.CatchMemory":       tensor.CatchMemory,
	"tensor.Numel":             tensor.Numel,
	"tensor.Over":              tensor.Over,
	"tensor.ParseDType":        tensor.ParseDType,
	"tensor.ParseMemoryFormat": tensor.ParseMemoryFormat,
	"tensor.ParseOrder":        tensor.ParseOrder,
	"tensor.Product":           tensor.Product,
	"tensor.Promote":           tensor.Promote,
	"tensor.ReshapeStrides":    tensor.ReshapeStrides,
	"tensor.RowMajor":          tensor.RowMajor,
	"tensor.RowMajorOrder":     tensor.RowMajorOrder,
	"tensor.SameSizes":         tensor.SameSizes,
	"tensor.Sizes":             tensor.Sizes,
	"tensor.ScalarOf":          tensor.ScalarOf,
	"tensor.SortDims":          tensor.SortDims,
	"tensor.SortDimsIf":        tensor.SortDimsIf,
	"tensor.EqualSizes":        tensor.EqualSizes,
	"tensor.StorageOf":         tensor.StorageOf,
	"tensor.ToSlice/float32":   tensor.ToSlice[float32],
	"tensor.ToSlice/int64":     tensor.ToSlice[int64],
	"tensor.WrapDim":           tensor.WrapDim,
	"tensor.Zeros":             tensor.Zeros,

	"graph.Define":       graph.Define,
	"graph.EffortOf":     graph.EffortOf,
	"graph.Evaluate":     graph.Evaluate,
	"graph.New":          graph.New,
	"graph.NewDraft":     graph.NewDraft,
	"graph.NewByValue":   graph.NewByValue[int],
	"graph.NewFuser":     graph.NewFuser,
	"graph.NoOp":         graph.NoOp,
	"graph.Numbers":      graph.Numbers,
	"graph.Of":           graph.Of,
	"graph.PackConstant": graph.PackConstant,
	"graph.ParseDim":     graph.ParseDim,
	"graph.ParsePin":     graph.ParsePin,
	"graph.ReadWork":     graph.ReadWork,
	"graph.SchemaOf":     graph.SchemaOf[struct{}],
	"graph.SuggestOp":    graph.SuggestOp,
	"graph.Verify":       graph.Verify,

	"graphfile.Held":      graphfile.Held,
	"graphfile.Load":      graphfile.Load,
	"graphfile.Parse":     graphfile.Parse,
	"graphfile.ParseSome": graphfile.ParseSome,
	"graphfile.Read":      graphfile.Read,
	"graphfile.Save":      graphfile.Save,
	"graphfile.SaveFile":  graphfile.SaveFile,
	"graphfile.Schema":    graphfile.Schema,
	"graphfile.SideFile":  graphfile.SideFile,

	"kernels.All":             kernels.All,
	"kernels.Rates":           kernels.Rates,
	"conv.Rates":              conv.Rates,
	"index.Rates":             index.Rates,
	"pointwise.Rates":         pointwise.Rates,
	"product.Rates":           product.Rates,
	"product.MultipliesBytes": product.MultipliesBytes,
	"reduce.Rates":            reduce.Rates,
	"sequence.Rates":          sequence.Rates,
	"view.Rates":              view.Rates,
	"window.InIntegers":       window.InIntegers,
	"window.Rates":            window.Rates,
	"conv.InBytes":            conv.InBytes,
	"conv.Ops":                conv.Ops,
	"index.Ops":               index.Ops,
	"pointwise.Bounds":        pointwise.Bounds,
	"pointwise.Ops":           pointwise.Ops,
	"product.Ops":             product.Ops,
	"quantised.Ops":           quantised.Ops,
	"reduce.Ops":              reduce.Ops,
	"sequence.Ops":            sequence.Ops,
	"view.Ops":                view.Ops,
	"window.Ops":              window.Ops,
	"kernels.Lookup":          kernels.Lookup,

	"passes.After":  passes.After,
	"passes.Before": passes.Before,
	"passes.Passes": passes.Passes,
	"passes.Run":    passes.Run,

	"layout.All":            layout.All,
	"layout.Default":        layout.Default,
	"layout.Advise":         layout.Advise,
	"layout.Given":          layout.Given,
	"layout.NewModel":       layout.NewModel,
	"layout.PS":             layout.PS,
	"layout.ReadGiven":      layout.ReadGiven,
	"layout.Solved":         layout.Solved,
	"layout.DefaultProfile": layout.DefaultProfile,
	"layout.Named":          layout.Named,
	"layout.NewDraft":       layout.NewDraft,
	"layout.NewProblem":     layout.NewProblem,
	"layout.For":            layout.For,
	"layout.Price":          layout.Price,
	"layout.Solve":          layout.Solve,

	"wcsp.Classes":      wcsp.Classes,
	"wcsp.KBest":        wcsp.KBest,
	"wcsp.Read":         wcsp.Read,
	"wcsp.ReadSolution": wcsp.ReadSolution,
	"verify.Solution":   verify.Solution,

	"exec.Compile":   exec.Compile,
	"exec.NewRunner": exec.NewRunner,
	"exec.Together":  exec.Together,
	"exec.Without":   exec.Without,

	"npz.EntriesOf":   npz.EntriesOf,
	"npz.NewArchive":  npz.NewArchive,
	"npz.Open":        npz.Open,
	"npz.ReadFile":    npz.ReadFile,
	"npz.ReadNPY":     npz.ReadNPY,
	"npz.ReadNPYFile": npz.ReadNPYFile,
	"npz.NPYFileMeta": npz.NPYFileMeta,
	"npz.WriteFile":   npz.WriteFile,
	"npz.WriteNPY":    npz.WriteNPY,
	"npz.WriteNPZ":    npz.WriteNPZ,

	"safetensors.Open":      safetensors.Open,
	"safetensors.Parse":     safetensors.Parse,
	"safetensors.Write":     safetensors.Write,
	"safetensors.WriteFile": safetensors.WriteFile,

	"onnx.As":       onnx.As,
	"onnx.Load":     onnx.Load,
	"onnx.LoadSome": onnx.LoadSome,
	"onnx.Open":     onnx.Open,
	"onnx.Parse":    onnx.Parse,

	"graphrun.Compare":         graphrun.Compare,
	"graphrun.Compile":         graphrun.Compile,
	"graphrun.Diff":            graphrun.Diff,
	"graphrun.Infer":           graphrun.Infer,
	"graphrun.KnownOf":         graphrun.KnownOf,
	"graphrun.SizesOf":         graphrun.SizesOf,
	"graphrun.Load":            graphrun.Load,
	"graphrun.Lookup":          graphrun.Lookup,
	"graphrun.MistakeOf":       graphrun.MistakeOf,
	"graphrun.LayoutName":      graphrun.LayoutName,
	"graphrun.New":             graphrun.New,
	"graphrun.NotesOf":         graphrun.NotesOf,
	"graphrun.ExplainLayout":   graphrun.ExplainLayout,
	"graphrun.ValueNamed":      graphrun.ValueNamed,
	"graphrun.FirstBreak":      graphrun.FirstBreak,
	"graphrun.LayoutRules":     graphrun.LayoutRules,
	"graphrun.LowerBound":      graphrun.LowerBound,
	"graphrun.Run":             graphrun.Run,
	"graphrun.ReadCertificate": graphrun.ReadCertificate,
	"graphrun.Verify":          graphrun.Verify,
	"graphrun.SpreadOf":        graphrun.SpreadOf,
	"graphrun.StepDifferences": graphrun.StepDifferences,
	"graphrun.Strategies":      graphrun.Strategies,
	"graphrun.StrategyNamed":   graphrun.StrategyNamed,
	"graphrun.TableOf":         graphrun.TableOf,
	"graphrun.Together":        graphrun.Together,
	"graphrun.VersusOf":        graphrun.VersusOf,
})

// receivers are the exported types whose methods are called. What is an interface, or has
// no methods, need not be here.
var receivers = append(append(exprReceivers, iterReceivers...),
	reflect.TypeFor[*contiguity.Report](),
	reflect.TypeFor[sym.Bool](),
	reflect.TypeFor[*sym.Env](),
	reflect.TypeFor[*sym.Evaluator](),
	reflect.TypeFor[sym.Int](),
	reflect.TypeFor[tensor.Predicate](),

	reflect.TypeFor[tensor.BF16](),
	reflect.TypeFor[tensor.DType](),
	reflect.TypeFor[*tensor.DimError](),
	reflect.TypeFor[tensor.Half](),
	reflect.TypeFor[tensor.MemoryFormat](),
	reflect.TypeFor[*tensor.MemoryError](),
	reflect.TypeFor[tensor.Meta](),
	reflect.TypeFor[tensor.Order](),
	reflect.TypeFor[*tensor.Promotion](),
	reflect.TypeFor[tensor.Scalar](),
	reflect.TypeFor[*tensor.Storage](),
	reflect.TypeFor[*tensor.Tensor](),
	reflect.TypeFor[tensor.Type](),

	reflect.TypeFor[graph.Effort](),
	reflect.TypeFor[*layout.Assignment](),
	reflect.TypeFor[*layout.Copy](),
	reflect.TypeFor[layout.Change](),
	reflect.TypeFor[*layout.GivenError](),
	reflect.TypeFor[*layout.Model](),
	reflect.TypeFor[*layout.Outcome](),
	reflect.TypeFor[*layout.Draft](),
	reflect.TypeFor[*layout.Problem](),

	reflect.TypeFor[*wcsp.Costs](),
	reflect.TypeFor[*wcsp.InfeasibleError](),
	reflect.TypeFor[*wcsp.Problem](),
	reflect.TypeFor[*wcsp.Solution](),

	reflect.TypeFor[graph.Arg](),
	reflect.TypeFor[*graph.AttrError](),
	reflect.TypeFor[*graph.Attention](),
	reflect.TypeFor[*graph.ByValue[int]](),
	reflect.TypeFor[*graph.Call](),
	reflect.TypeFor[graph.Decl](),
	reflect.TypeFor[graph.Dim](),
	reflect.TypeFor[*graph.Draft](),
	reflect.TypeFor[*graph.Error](),
	reflect.TypeFor[graph.Errors](),
	reflect.TypeFor[graph.Field](),
	reflect.TypeFor[*graph.Fuser](),
	reflect.TypeFor[*graph.Fusion](),
	reflect.TypeFor[*graph.Graph](),
	reflect.TypeFor[*graph.Impl](),
	reflect.TypeFor[*graph.Kernel](),
	reflect.TypeFor[graph.Kind](),
	reflect.TypeFor[*graph.Mem](),
	reflect.TypeFor[graph.NoReference](),
	reflect.TypeFor[*graph.Node](),
	reflect.TypeFor[*graph.Packed](),
	reflect.TypeFor[*graph.Op](),
	reflect.TypeFor[graph.Outline](),
	reflect.TypeFor[*graph.Parts](),
	reflect.TypeFor[*graph.PerWorker[int]](),
	reflect.TypeFor[graph.Pin](),
	reflect.TypeFor[*graph.Symbolic](),
	reflect.TypeFor[*graph.Pointwise](),
	reflect.TypeFor[graph.Props](),
	reflect.TypeFor[graph.Result](),
	reflect.TypeFor[graph.Reference](),
	reflect.TypeFor[*graph.Rows](),
	reflect.TypeFor[*graph.ScoreRows](),
	reflect.TypeFor[*graph.Tail](),
	reflect.TypeFor[*graph.TailRun](),
	reflect.TypeFor[*graph.Schema](),
	reflect.TypeFor[*graph.Segment](),
	reflect.TypeFor[*graph.Value](),
	reflect.TypeFor[graph.Walk](),
	reflect.TypeFor[graph.Work](),

	reflect.TypeFor[*passes.Misfit](),
	reflect.TypeFor[*passes.Plan](),
	reflect.TypeFor[passes.Unchecked](),

	reflect.TypeFor[exec.Holding](),
	reflect.TypeFor[*exec.Incomplete](),
	reflect.TypeFor[exec.LeftOut](),
	reflect.TypeFor[*exec.MemoryError](),
	reflect.TypeFor[*exec.Need](),
	reflect.TypeFor[*exec.Program](),
	reflect.TypeFor[*exec.Runner](),
	reflect.TypeFor[*exec.Session](),

	reflect.TypeFor[*npz.Archive](),
	reflect.TypeFor[*safetensors.File](),
	reflect.TypeFor[*onnx.Model](),
	reflect.TypeFor[onnx.Node](),
	reflect.TypeFor[onnx.Value](),

	reflect.TypeFor[*graphrun.Comparison](),
	reflect.TypeFor[*graphrun.File](),
	reflect.TypeFor[*graphrun.Certificate](),
	reflect.TypeFor[*graphrun.Known](),
	reflect.TypeFor[graphrun.Loader](),
	reflect.TypeFor[*graphrun.PinError](),
	reflect.TypeFor[*graphrun.Program](),
	reflect.TypeFor[graphrun.PlanChoice](),
	reflect.TypeFor[*graphrun.Report](),
	reflect.TypeFor[graphrun.Size](),
	reflect.TypeFor[graphrun.Sizes](),
	reflect.TypeFor[*graphrun.Table](),
	reflect.TypeFor[graphrun.UncheckedReport](),
)

func joined(maps ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range maps {
		for name, f := range m {
			all[name] = f
		}
	}
	return all
}
