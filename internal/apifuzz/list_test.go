package apifuzz

import (
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// functions has the exported functions by package and name. An instance of a generic function may have a suffix after a
// slash.
var functions = joined(listedFunctions, map[string]any{
	"graph.NewByValue":         graph.NewByValue[int],
	"graph.SchemaOf":           graph.SchemaOf[struct{}],
	"iter.FoldOf":              iter.FoldOf[float32, float32, float32],
	"iter.NewFold":             iter.NewFold[float32, float32],
	"report.SizesOf":           report.SizesOf[sym.Int],
	"iter.Map0":                iter.Map0[float32],
	"iter.Map0Out2":            iter.Map0Out2[float32, float32],
	"iter.Map0Out3":            iter.Map0Out3[float32, float32, float32],
	"iter.Map1":                iter.Map1[float32, float32],
	"iter.Map1Out2":            iter.Map1Out2[float32, float32, float32],
	"iter.Map1Out3":            iter.Map1Out3[float32, float32, float32, float32],
	"iter.Map2":                iter.Map2[float32, float32, float32],
	"iter.Map2Out2":            iter.Map2Out2[float32, float32, float32, float32],
	"iter.Map2Out3":            iter.Map2Out3[float32, float32, float32, float32, float32],
	"iter.Map3":                iter.Map3[float32, float32, float32, float32],
	"iter.Map3Out2":            iter.Map3Out2[float32, float32, float32, float32, float32],
	"iter.Map3Out3":            iter.Map3Out3[float32, float32, float32, float32, float32, float32],
	"iter.Map4":                iter.Map4[float32, float32, float32, float32, float32],
	"iter.Map4Out2":            iter.Map4Out2[float32, float32, float32, float32, float32, float32],
	"iter.Map4Out3":            iter.Map4Out3[float32, float32, float32, float32, float32, float32, float32],
	"iter.Resumes":             iter.Resumes[float32, float32],
	"iter.Slice0":              iter.Slice0[float32],
	"iter.Slice0Out2":          iter.Slice0Out2[float32, float32],
	"iter.Slice0Out3":          iter.Slice0Out3[float32, float32, float32],
	"iter.Slice1":              iter.Slice1[float32, float32],
	"iter.Slice1Out2":          iter.Slice1Out2[float32, float32, float32],
	"iter.Slice1Out3":          iter.Slice1Out3[float32, float32, float32, float32],
	"iter.Slice2":              iter.Slice2[float32, float32, float32],
	"iter.Slice2Out2":          iter.Slice2Out2[float32, float32, float32, float32],
	"iter.Slice2Out3":          iter.Slice2Out3[float32, float32, float32, float32, float32],
	"iter.Slice3":              iter.Slice3[float32, float32, float32, float32],
	"iter.Slice3Out2":          iter.Slice3Out2[float32, float32, float32, float32, float32],
	"iter.Slice3Out3":          iter.Slice3Out3[float32, float32, float32, float32, float32, float32],
	"iter.Slice4":              iter.Slice4[float32, float32, float32, float32, float32],
	"iter.Slice4Out2":          iter.Slice4Out2[float32, float32, float32, float32, float32, float32],
	"iter.Slice4Out3":          iter.Slice4Out3[float32, float32, float32, float32, float32, float32, float32],
	"iter.WithCheck":           iter.WithCheck[float32],
	"iter.WithResult":          iter.WithResult[float32, float32],
	"sym.Translate":            sym.Translate[int],
	"sym.Differing":            sym.Differing[int],
	"sym.Fork":                 sym.Fork[int],
	"sym.Join":                 sym.Join[int],
	"tensor.DTypeOf":           tensor.DTypeOf[float32],
	"tensor.FromSlice/bool":    tensor.FromSlice[bool],
	"tensor.FromSlice/float32": tensor.FromSlice[float32],
	"tensor.Data/float32":      tensor.Data[float32],
	"tensor.ToSlice/float32":   tensor.ToSlice[float32],
	"tensor.ToSlice/int64":     tensor.ToSlice[int64],
})

// receivers are the exported types with methods.
var receivers = append(slices.Clone(listedReceivers),
	reflect.TypeFor[*graph.ByValue[int]](),
	reflect.TypeFor[*graph.PerWorker[int]]())

func joined(maps ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range maps {
		for name, f := range m {
			all[name] = f
		}
	}
	return all
}
