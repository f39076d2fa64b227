package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// ordersOf returns all orders of up to four dimensions, and some of more.
func ordersOf(rank int) (list []tensor.Order) {
	dims := tensor.RowMajorOrder(rank).Dims()
	var permute func(k int)
	permute = func(k int) {
		if k == rank {
			if o, err := tensor.NewOrder(dims...); err == nil && len(list) < 48 {
				list = append(list, o)
			}
			return
		}
		for i := k; i < rank; i++ {
			dims[k], dims[i] = dims[i], dims[k]
			permute(k + 1)
			dims[k], dims[i] = dims[i], dims[k]
		}
	}
	permute(0)
	return list
}

// anyOrder runs an op's examples with results in every order, and returns what went wrong, and how many
// results were compared.
func anyOrder(op *graph.Op) (compared int, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
	}()
	for i, ex := range op.Examples {
		draw := kerneltest.IndexValues(rand.New(rand.NewPCG(1, uint64(i))))
		if op.Kind == graph.Follows {
			draw = kerneltest.MixedValues(rand.New(rand.NewPCG(1, uint64(i))))
		}
		c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
		if err != nil {
			return compared, err
		}
		in := make([]*tensor.Tensor, len(ex.In))
		for k, m := range ex.In {
			if m.DType != tensor.Invalid {
				in[k] = kerneltest.Filled(m, draw)
			}
		}
		res, err := kerneltest.Infer(op, c)
		if err != nil {
			return compared, err
		}
		if len(res) == 0 || res[0].Alias >= 0 || res[0].Dynamic || slices.ContainsFunc(res, func(r graph.Result) bool { return r.Alias >= 0 }) {
			continue
		}
		for _, o := range ordersOf(c.Out[0].Rank()) {
			if _, err := kerneltest.Infer(op, c); err != nil {
				return compared, err
			}
			c.Walk = c.InOrder(o)
			layouts := make([]tensor.Meta, len(c.Out))
			for k, m := range c.Out {
				layouts[k] = c.Walk.Lay(k, m)
			}
			if err := kerneltest.CheckCall(op, c, in, layouts...); err != nil {
				return compared, fmt.Errorf("example %d in order %v: %w", i, o, err)
			}
			if o.Rank() > 1 && !o.IsRowMajor() {
				compared++
			}
		}
	}
	return compared, nil
}

// asInferred are ops whose kernels ignore how the results lie, or cannot heed it, and why.
var asInferred = map[string]string{
	"conv3d":            "its products write planes of the result one after another",
	"layer_norm":        "it writes the lines of a dense result side by side",
	"mel_weight_matrix": "it makes the matrix row by row",
	"rand":              "which number an element gets follows from where it lies",
	"rand_like":         "which number an element gets follows from where it lies",
	"randint":           "which number an element gets follows from where it lies",
	"randn":             "which number an element gets follows from where it lies",
	"randn_like":        "which number an element gets follows from where it lies",
	"scatter_reduce":    "its counts lie as the result does, row-major",
	"tfidf_vectorizer":  "it writes counters of a row-major result",
}

// moreExamples are calls of larger rank and size than an op's own examples.
func moreExamples(name string) []graph.Example {
	cube, a := kit.F32(3, 4, 5, 6), graph.Attrs{}
	switch name {
	case "matmul":
		return []graph.Example{{In: []tensor.Meta{kit.F32(2, 3, 33, 17), kit.F32(17, 41)}}, {In: []tensor.Meta{kit.F32(2, 3, 5, 7), kit.F32(2, 1, 7, 9)}}}
	case "mm":
		return []graph.Example{{In: []tensor.Meta{kit.F32(70, 300), kit.F32(300, 50)}}}
	case "bmm":
		return []graph.Example{{In: []tensor.Meta{kit.F32(3, 20, 40), kit.F32(3, 40, 33)}}}
	case "linear":
		return []graph.Example{{In: []tensor.Meta{kit.F32(2, 3, 11, 20), kit.F32(30, 20), kit.F32(30)}}}
	case "sum", "mean", "amax", "amin", "std", "var", "var_mean", "std_mean", "logsumexp", "norm", "linalg_vector_norm", "all", "any":
		list := []graph.Example{{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": []int{1}}},
			{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": []int{0, 3}, "keepdim": true}}}
		if name == "norm" {
			list[0].Attrs["p"], list[1].Attrs["p"] = 2, 2
		}
		return list
	case "prod", "argmax", "argmin", "max", "min":
		return []graph.Example{{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": 1}},
			{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": 2, "keepdim": true}}}
	case "softmax", "log_softmax", "cumsum":
		return []graph.Example{{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": 2}}, {In: []tensor.Meta{kit.NHWC(2, 6, 5, 4)}, Attrs: graph.Attrs{"dim": 1}}}
	case "cat":
		return []graph.Example{{In: []tensor.Meta{cube, kit.F32(3, 2, 5, 6), kit.NHWC(3, 3, 5, 6)}, Attrs: graph.Attrs{"dim": 1}}}
	case "batch_norm":
		return []graph.Example{{In: []tensor.Meta{cube, kit.F32(4), kit.F32(4), kit.F32(4), kit.F32(4)}, Attrs: a}}
	}
	return nil
}

// TestAnyOrder runs every op that says it writes any order with results in all of them. An op that does
// not say so must have a reason, or none of its results has two dimensions.
func TestAnyOrder(t *testing.T) {
	marked := 0
	for _, op := range kernels.All() {
		if op.Compile == nil || op.Eager != nil || len(op.Impls) > 1 {
			continue
		}
		given := *op
		given.Examples = append(append([]graph.Example(nil), op.Examples...), moreExamples(op.Name)...)
		compared, err := anyOrder(&given)
		switch {
		case op.AnyOrder || op.Kind == graph.Follows:
			if err != nil {
				t.Errorf("%s does not write any order: %v", op.Name, err)
			}
			if op.AnyOrder {
				marked++
			}
			if compared == 0 && op.AnyOrder {
				t.Errorf("%s: no result was compared", op.Name)
			}
		case err != nil && asInferred[op.Name] == "":
			t.Errorf("%s writes results as inferred only, and no reason is known: %v", op.Name, err)
		case err == nil && asInferred[op.Name] != "":
			t.Errorf("%s writes any order: the reason against it is no longer one", op.Name)
		}
	}
	if marked < 40 {
		t.Errorf("%d ops are marked", marked)
	}
}
