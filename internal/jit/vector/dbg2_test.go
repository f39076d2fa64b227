package vector
import ("testing";"github.com/graphrun/graphrun/expr";"github.com/graphrun/graphrun/tensor";"github.com/graphrun/graphrun/internal/machine";"fmt")
func TestDbg2(t *testing.T) {
	b := expr.NewBuilder(tensor.Float16)
	x := b.Do(expr.Div, b.Const(tensor.Float64, 3e9), b.Convert(tensor.Float64, b.Load(0)))
	c, _ := b.Build(b.Real(b.Do(expr.Lt, x, x)))
	l := &expr.Loop{Code: c, Scalar: []bool{true}}
	g, _ := newGen(l, machine.AVX2, Options{})
	fmt.Println(g.lower())
	for _, i := range append(g.row, g.stores...) { fmt.Printf("%+v\n", i) }
	_, err := Compile(l, machine.AVX2, Options{}); fmt.Println(err)
}
