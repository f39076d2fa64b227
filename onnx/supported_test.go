package onnx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/operators"
)

// TestSupportedOperators checks that the list is the table, that every operator of the default domain has a version,
// and that restrictions belong to operators of the table.
func TestSupportedOperators(t *testing.T) {
	list, err := SupportedOperators(Options{Operators: Operators{"com.example": {"Own": As("relu")}}})
	require.NoError(t, err)
	found := map[convert.Operator]SupportedOperator{}
	for i, o := range list {
		found[convert.Operator{Domain: o.Domain, Name: o.Name}] = o
		require.Positive(t, o.Since)
		if i > 0 {
			require.Less(t, list[i-1].Domain+" "+list[i-1].Name, o.Domain+" "+o.Name)
		}
	}
	count := 1
	for domain, table := range domains {
		count += len(table)
		for name := range table {
			require.Contains(t, found, convert.Operator{Domain: domain, Name: name})
		}
	}
	require.Len(t, list, count)
	versions := 0
	for version, names := range operatorsSince {
		for _, name := range strings.Fields(names) {
			versions++
			require.Equal(t, version, found[convert.Operator{Domain: "", Name: name}].Since, name)
		}
	}
	require.Equal(t, len(operators.Standard), versions)
	names := map[string]bool{}
	for key := range found {
		names[key.String()] = true
	}
	for name := range restrictions {
		require.Contains(t, names, name)
	}
	for name := range stringOperators {
		require.Contains(t, names, name)
	}
	require.Equal(t, 24, found[convert.Operator{Domain: "", Name: "Swish"}].Since)
	require.Equal(t, 1, found[convert.Operator{Domain: "com.example", Name: "Own"}].Since)
}

// TestMissingOperators lists operators of the graph, of a branch and of a function, each with its nodes.
func TestMissingOperators(t *testing.T) {
	branch := &pb.GraphProto{Node: []*pb.NodeProto{node1("Reluu", nil, names("b"))}, Output: infos(info("b", tFloat))}
	gelu := node1("QuickGelu", names("x"), names("g"))
	own := node1("Own", names("x"), names("o"))
	own.Domain = "mine"
	p := &pb.GraphProto{Input: infos(info("x", tFloat, 2), info("c", tBool)), Output: infos(info("y", tFloat, 2)),
		Node: []*pb.NodeProto{node1("Reluu", names("x"), names("y")), gelu, own,
			node1("If", names("c"), names("z"), attrGraph("then_branch", branch), attrGraph("else_branch", branch))}}
	body := &pb.FunctionProto{Name: "Own", Domain: "mine", Input: []string{"x"}, Output: []string{"q"},
		Node: []*pb.NodeProto{node1("Frobnicate", names("x"), names("q"))}}
	m, err := Parse(pb.Marshal(model(17, p, body)), "")
	require.NoError(t, err)
	list, err := m.MissingOperators(Options{})
	require.NoError(t, err)
	require.Equal(t, []MissingOperator{
		{"", "Frobnicate", []string{"q"}, "", ""},
		{"", "QuickGelu", []string{"g"}, "com.microsoft.QuickGelu", ""},
		{"", "Reluu", []string{"y", "b", "b"}, "Relu", ""},
	}, list)
	_, err = m.Graph(Options{})
	require.ErrorContains(t, err, "Frobnicate (1), QuickGelu (1; did you mean com.microsoft.QuickGelu?), "+
		"Reluu (3; did you mean Relu?)")
	_, err = (*Model)(nil).MissingOperators(Options{})
	require.Error(t, err)

	search := node1("BeamSearch", names("x"), names("y"))
	search.Domain = "com.microsoft"
	p.Node = []*pb.NodeProto{search}
	m, err = Parse(pb.Marshal(model(17, p)), "")
	require.NoError(t, err)
	list, err = m.MissingOperators(Options{})
	require.NoError(t, err)
	require.Equal(t, []MissingOperator{{"com.microsoft", "BeamSearch", []string{"y"}, "", generationInGo}}, list)
	_, err = m.Graph(Options{})
	require.ErrorContains(t, err, "com.microsoft.BeamSearch (1; run the decoder")
}
