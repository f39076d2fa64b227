package wcsp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// network makes problems like those of layouts in neural networks: a variable for each op, whose labels are k layouts,
// and one for each value with several readers, whose labels are the sets of layouts in which the value is had.
type network struct {
	wcsp.Problem
	k       int
	rng     *rand.Rand
	readers map[int][]int // of the value of an op
	order   []int
}

func newNetwork(k int) *network {
	return &network{k: k, rng: rand.New(rand.NewPCG(7, uint64(k))), readers: map[int][]int{}}
}

func (n *network) variable(name string, labels int) int {
	n.Variables = append(n.Variables, wcsp.Variable{Name: name, Labels: make([]string, labels)})
	return len(n.Variables) - 1
}

func (n *network) factor(scope []int, costs []int64) {
	n.Factors = append(n.Factors, wcsp.Factor{Scope: scope, Costs: costs})
}

// op adds an op that reads values. A heavy one takes longer in some layouts than in others.
func (n *network) op(heavy bool, in ...int) int {
	v := n.variable(fmt.Sprint("op", len(n.order)), n.k)
	n.order = append(n.order, v)
	costs := make([]int64, n.k)
	for i := range costs {
		if costs[i] = 1000; heavy {
			costs[i] = 60000 + n.rng.Int64N(80000)
		}
	}
	n.factor([]int{v}, costs)
	for _, t := range in {
		n.readers[t] = append(n.readers[t], v)
	}
	return v
}

// done adds what values cost: copies from the layout in which one is made to those in which it is read.
func (n *network) done() *wcsp.Problem {
	for _, v := range n.order {
		readers := n.readers[v]
		price := 10000 + n.rng.Int64N(40000)
		switch len(readers) {
		case 0:
		case 1:
			n.factor([]int{v, readers[0]}, n.costs(n.k, n.k, func(from, to int) int64 {
				return price * int64(min(from^to, 1))
			}))
		default:
			sets := 1<<n.k - 1
			set := n.variable(fmt.Sprint("readers of ", v), sets)
			n.factor([]int{v, set}, n.costs(n.k, sets, func(from, s int) (c int64) {
				for to := range n.k {
					if (s+1)>>to&1 == 1 && to != from {
						c += price
					}
				}
				return c
			}))
			for _, r := range readers {
				n.factor([]int{set, r}, n.costs(sets, n.k, func(s, to int) int64 {
					if (s+1)>>to&1 == 0 {
						return wcsp.Forbidden
					}
					return 0
				}))
			}
		}
	}
	return &n.Problem
}

func (n *network) costs(rows, columns int, f func(i, k int) int64) []int64 {
	var costs []int64
	for i := range rows {
		for k := range columns {
			costs = append(costs, f(i, k))
		}
	}
	return costs
}

func chain(k int) *wcsp.Problem {
	n := newNetwork(k)
	x := n.op(false)
	for i := range 1000 {
		x = n.op(i%3 == 0, x)
	}
	return n.done()
}

func resnet(k int) *wcsp.Problem {
	n := newNetwork(k)
	x := n.op(true)
	for range 100 {
		y := x
		for range 3 {
			y = n.op(false, n.op(false, n.op(true, y)))
		}
		x = n.op(false, n.op(false, y, x))
	}
	return n.done()
}

func bert(k int) *wcsp.Problem {
	n := newNetwork(k)
	x, mask := n.op(false), n.op(false)
	for range 24 {
		project := func() int { return n.op(false, n.op(false, n.op(true, x))) }
		scores := n.op(false, n.op(false, n.op(true, project(), project())), mask)
		y := n.op(true, n.op(false, n.op(true, n.op(false, scores), project())))
		x = n.op(false, n.op(false, y, x))
		for range 20 {
			x = n.op(false, x)
		}
		y = n.op(true, n.op(false, n.op(true, x)))
		x = n.op(false, n.op(false, y, x))
	}
	return n.done()
}

func hrnet(k int) *wcsp.Problem {
	n := newNetwork(k)
	branches := []int{n.op(true)}
	for stage, modules := range []int{1, 1, 4, 3} {
		if stage > 0 {
			branches = append(branches, n.op(true, branches[len(branches)-1]))
		}
		for range modules {
			for i, x := range branches {
				for range 4 {
					y := n.op(false, n.op(true, n.op(false, n.op(false, n.op(true, x)))))
					x = n.op(false, n.op(false, y, x))
				}
				branches[i] = x
			}
			fused := make([]int, len(branches))
			for i := range branches {
				sum := branches[i]
				for j := range branches {
					if j != i {
						sum = n.op(false, sum, n.op(false, n.op(true, branches[j])))
					}
				}
				fused[i] = n.op(false, sum)
			}
			branches = fused
		}
	}
	return n.done()
}

var topologies = []struct {
	name string
	make func(k int) *wcsp.Problem
	k    []int
}{
	{"chain", chain, []int{2, 6}}, {"resnet", resnet, []int{2, 3, 6}}, {"bert", bert, []int{2, 3, 6}},
	{"hrnet", hrnet, []int{2, 3, 4}},
}

// TestTopologies solves problems of a thousand ops to the optimum, and checks the proofs.
func TestTopologies(t *testing.T) {
	for _, topology := range topologies {
		for _, k := range topology.k[:2] {
			p := topology.make(k)
			s, err := wcsp.Exact.Solve(p, wcsp.Options{Proof: true})
			if err != nil || !s.Optimal() {
				t.Errorf("%s, %d layouts: %v", topology.name, k, err)
				continue
			}
			if err := verify.Solution(t.Context(), p, s); err != nil {
				t.Errorf("%s, %d layouts: %v", topology.name, k, err)
			}
		}
	}
}

// BenchmarkExact solves problems of a thousand ops.
func BenchmarkExact(b *testing.B) {
	for _, topology := range topologies {
		for _, k := range topology.k {
			p := topology.make(k)
			b.Run(fmt.Sprintf("%s/%d", topology.name, k), func(b *testing.B) {
				var s *wcsp.Solution
				for b.Loop() {
					var err error
					if s, err = wcsp.Exact.Solve(p, wcsp.Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(p.Variables)), "variables")
				b.ReportMetric(float64(s.Cost-s.Bound)/float64(s.Bound)*100, "%gap")
			})
		}
	}
}
