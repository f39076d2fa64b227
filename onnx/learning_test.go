package onnx

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

func attrFloats(name string, v ...float32) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeFloats, Floats: v}
}

func attrTexts(name string, list ...string) *pb.AttributeProto {
	a := &pb.AttributeProto{Name: name, Type: pb.AttributeStrings}
	for _, s := range list {
		a.Strings = append(a.Strings, []byte(s))
	}
	return a
}

func attrTensor(name string, t *pb.TensorProto) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeTensor, T: t}
}

// mlNode returns a node of the domain ai.onnx.ml without operands.
func mlNode(op string, attrs ...*pb.AttributeProto) *pb.NodeProto {
	n := node1(op, nil, names("y"), attrs...)
	n.Domain = mlDomain
	return n
}

// regressor returns a TreeEnsembleRegressor with the tree x[0] <= 0 ? 1 : 2, with attributes replaced or added.
func regressor(changes ...*pb.AttributeProto) *pb.NodeProto {
	attrs := []*pb.AttributeProto{attrInts("nodes_treeids", 0, 0, 0), attrInts("nodes_nodeids", 0, 1, 2),
		attrInts("nodes_featureids", 0, 0, 0), attrFloats("nodes_values", 0, 0, 0),
		attrTexts("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF"), attrInts("nodes_truenodeids", 1, 0, 0),
		attrInts("nodes_falsenodeids", 2, 0, 0), attrInts("target_treeids", 0, 0), attrInts("target_nodeids", 1, 2),
		attrInts("target_ids", 0, 0), attrFloats("target_weights", 1, 2)}
	for _, c := range changes {
		replaced := false
		for i, a := range attrs {
			if a.Name == c.Name {
				attrs[i], replaced = c, true
			}
		}
		if !replaced {
			attrs = append(attrs, c)
		}
	}
	return mlNode("TreeEnsembleRegressor", attrs...)
}

// TestRejectedTrees checks the errors of trees that contradict themselves.
func TestRejectedTrees(t *testing.T) {
	branches := slices.Repeat([]string{"BRANCH_LT"}, 3)
	for want, change := range map[string]*pb.AttributeProto{
		"node 0 of tree 0 cannot be reached from a root":           attrInts("nodes_falsenodeids", 0, 0, 0),
		"tree 0 has no root":                                       attrTexts("nodes_modes", branches...),
		"node 0 of tree 0 has the child 7, which does not exist":   attrInts("nodes_truenodeids", 7, 0, 0),
		"node 1 of tree 0 is defined twice":                        attrInts("nodes_nodeids", 0, 1, 1),
		"node 0 of tree 0 and node 1 of tree 0 are both roots":     attrTexts("nodes_modes", "LEAF", "LEAF", "LEAF"),
		`the unknown mode "BRANCH_IN"`:                             attrTexts("nodes_modes", "BRANCH_IN", "LEAF", "LEAF"),
		`"nodes_values" has 2 elements, want 3`:                    attrFloats("nodes_values", 0, 0),
		`"nodes_missing_value_tracks_true" has 1 elements, want 3`: attrInts("nodes_missing_value_tracks_true", 1),
		"compares feature 4, but operand 0 has 2 columns":          attrInts("nodes_featureids", 4, 0, 0),
		"weight 1 belongs to node 9 of tree 0, which does not":     attrInts("target_nodeids", 1, 9),
		"node 2 of tree 0 has a weight for target 3, want 0 to 0":  attrInts("target_ids", 0, 3),
		`"target_ids" has 1 elements, want 2`:                      attrInts("target_ids", 0),
		"0 targets are not supported":                              attrInt("n_targets", 0),
		`aggregate_function "MEDIAN" is not supported`:             attrText("aggregate_function", "MEDIAN"),
		`post_transform "CUBE" is not supported`:                   attrText("post_transform", "CUBE"),
		`"base_values" has 2 elements, want 1`:                     attrFloats("base_values", 1, 2),
		`attribute "nodes_values" is of type ints, want floats`:    attrInts("nodes_values", 1, 2, 3),
		"1 numbers of data, but dtype and shape need 3": attrTensor("nodes_values_as_tensor",
			floats("", []int64{3}, 1)),
	} {
		checkRejected(t, regressor(change), [][]any{{5, 2}}, want)
	}
	modes := attrTensor("nodes_modes", &pb.TensorProto{DataType: int32(pb.Uint8), Dims: []int64{1}, RawData: []byte{0}})
	splits := attrTensor("nodes_splits", floats("", []int64{1}, 0))
	weights := attrTensor("leaf_weights", floats("", []int64{1}, 3))
	for want, changed := range map[string][3]int64{"node 0 is reached twice": {0, 0, 0},
		"the child 4, want 0 to 0": {4, 0, 0}, "tree_roots has 2, want 0 to 0": {0, 1, 2}} {
		checkRejected(t, mlNode("TreeEnsemble", attrInts("nodes_featureids", 0), attrInts("nodes_truenodeids", changed[0]),
			attrInts("nodes_trueleafs", changed[1]), attrInts("nodes_falsenodeids", 0), attrInts("nodes_falseleafs", 1),
			attrInts("tree_roots", changed[2]), attrInts("leaf_targetids", 0), modes, splits, weights), [][]any{{5, 2}}, want)
	}
}

// TestRejectedEstimators checks the errors of other operators of ai.onnx.ml.
func TestRejectedEstimators(t *testing.T) {
	matrix := [][]any{{5, 2}}
	labels := attrInts("classlabels_ints", 0, 1, 2)
	for _, c := range []struct {
		n    *pb.NodeProto
		want string
	}{
		{mlNode("LinearRegressor", attrFloats("coefficients", 1, 2, 3)), "has 3 numbers, want 2 for 1 rows of 2 columns"},
		{mlNode("LinearRegressor", attrFloats("coefficients", 1, 2), attrFloats("intercepts", 1, 2)),
			"has 2 elements, want 1"},
		{mlNode("LinearClassifier", attrFloats("coefficients", 1, 2)), "must have elements"},
		{mlNode("LinearClassifier", labels, attrFloats("intercepts", 1, 2)), "2 intercepts do not suit 3 labels"},
		{mlNode("LinearClassifier", attrInts("classlabels_ints", 0, 1), attrFloats("coefficients", 1, 2),
			attrFloats("intercepts", 1), attrText("post_transform", "PROBIT")), "PROBIT of a single score"},
		{mlNode("SVMClassifier", labels, attrInts("vectors_per_class", 1, 1)), "has 2 elements, want 3"},
		{mlNode("SVMClassifier", labels, attrInts("vectors_per_class", 1, 1, 1), attrFloats("coefficients", 1)),
			"has 1 elements, want 6"},
		{mlNode("SVMRegressor", attrInt("n_supports", 1), attrFloats("rho", 0), attrFloats("coefficients", 1),
			attrFloats("support_vectors", 1, 2), attrText("kernel_type", "CUBIC")), `kernel_type "CUBIC"`},
		{mlNode("Scaler", attrFloats("offset", 1, 2, 3)), `"offset" has 3 elements, want 2`},
		{mlNode("Normalizer", attrText("norm", "L3")), `norm "L3" is not supported`},
		{mlNode("Imputer"), "the imputed values for float32 are missing"},
		{mlNode("LabelEncoder", attrFloats("keys_floats", 1, 2), attrInts("values_int64s", 1)),
			"got 2 keys and 1 values"},
		{mlNode("LabelEncoder", attrTexts("keys_strings", "a"), attrInts("values_int64s", 1)),
			"the operand has numbers, but the keys are strings"},
		{mlNode("OneHotEncoder", attrTexts("cats_strings", "a")), "the operand has numbers, but the keys are strings"},
		{mlNode("ZipMap", attrTexts("classlabels_strings", "a")), "operand 0 has 2 columns, but there are 1 labels"},
		{mlNode("FeatureVectorizer", attrInts("inputdimensions", 3)), `operand 0 has 2 columns`},
		{mlNode("DictVectorizer", attrTexts("string_vocabulary", "a")), "operand 0 must be a map"},
	} {
		checkRejected(t, c.n, matrix, c.want)
	}
}

// TestTextsAreRejected checks that operators that compute with numbers reject strings.
func TestTextsAreRejected(t *testing.T) {
	p := &pb.GraphProto{Input: infos(info("x", pb.String, 2)), Output: infos(info("y", tFloat)),
		Node: []*pb.NodeProto{node1("Neg", names("x"), names("y"))}}
	_, err := toGraph(model(17, p), Options{})
	require.ErrorContains(t, err, `node "y" (Neg): strings are not supported as operands`)
}

// TestUnknownCategory checks that a strict encoder rejects an unknown category when it runs.
func TestUnknownCategory(t *testing.T) {
	n := mlNode("OneHotEncoder", attrTexts("cats_strings", "a", "b"), attrInt("zeros", 0))
	n.Input = names("x")
	p := &pb.GraphProto{Input: infos(info("x", pb.String, 2)), Output: infos(info("y", tFloat)), Node: []*pb.NodeProto{n}}
	g, err := toGraph(model(17, p), Options{})
	require.NoError(t, err)
	x, err := g.Labels["x"].Encode([]string{"b", "c"}, 2)
	require.NoError(t, err)
	_, err = execute(g, map[string]*tensor.Tensor{"x": x})
	require.ErrorContains(t, err, "Class values must be smaller than num_classes")
}

// TestMapResults checks the maps that a row of probabilities stands for.
func TestMapResults(t *testing.T) {
	n := mlNode("ZipMap", attrInts("classlabels_int64s", 3, -1))
	n.Input = names("x")
	p := &pb.GraphProto{Input: infos(info("x", tFloat, 2, 2)), Output: infos(info("y", tFloat)), Node: []*pb.NodeProto{n}}
	g, err := toGraph(model(17, p), Options{})
	require.NoError(t, err)
	out, err := execute(g, map[string]*tensor.Tensor{"x": f32([]int{2, 2}, 0.25, 0.75, 1, 0)})
	require.NoError(t, err)
	maps, err := g.Labels["y"].Maps(out["y"])
	require.NoError(t, err)
	require.Equal(t, []map[string]float64{{"3": 0.25, "-1": 0.75}, {"3": 1, "-1": 0}}, maps)
	require.Equal(t, []string{"3", "-1"}, g.Labels["y"].Keys())
	_, err = g.Labels["y"].Maps(f32([]int{2}, 1, 2))
	require.NoError(t, err)
	_, err = g.Labels["y"].Maps(f32([]int{3}, 1, 2, 3))
	require.Error(t, err)
	_, err = g.Labels["y"].Decode(i64([]int{1}, 0))
	require.ErrorContains(t, err, "the elements are not strings")
}
