package catalogue

import (
	"testing"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

func TestDTypeSet(t *testing.T) {
	for _, c := range []struct {
		set  []tensor.DType
		want string
	}{
		{nil, "-"},
		{tensor.DTypes(), "all"},
		{[]tensor.DType{tensor.Float64, tensor.Float32, tensor.Int64}, "int64,float"},
		{[]tensor.DType{tensor.BFloat16, tensor.Float16, tensor.Bool, tensor.Complex64}, "bool,half,complex64"},
	} {
		set := dtypeSet{}
		for _, d := range c.set {
			set[d] = true
		}
		if got := set.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestServed holds the dtypes that the catalogue lists to what can be compiled.
func TestServed(t *testing.T) {
	for _, o := range kernels.All() {
		if len(o.Examples) > 0 && len(dtypesOf(o).mostGeneral()) == 0 {
			t.Errorf("%s supports no dtype", o.Name)
		}
		if o.Compile == nil || len(o.Impls) > 1 {
			continue
		}
		for i, ex := range o.Examples {
			for _, from := range exampleDTypes(ex) {
				for _, d := range tensor.DTypes() {
					c, err := exampleCall(o, ex, from, d)
					if err != nil {
						t.Fatalf("%s, example %d: %v", o.Name, i, err)
					}
					res, err := o.Infer(c)
					if err != nil || res[0].Dynamic || res[0].Alias >= 0 {
						continue
					}
					for _, r := range res {
						c.Out = append(c.Out, r.Meta())
					}
					if _, err := o.Compile(c); err != nil {
						t.Errorf("%s, example %d: %v is inferred, but not compiled: %v", o.Name, i, d, err)
					}
				}
			}
		}
	}
}
