// Package ml has the converters of the domain ai.onnx.ml: trees, linear models, support vector machines, encoders, and
// operators on maps.
package ml

// Table has the converters of the domain ai.onnx.ml by operator name.
var Table = map[string]converter{
	"TreeEnsemble": treeEnsemble5, "TreeEnsembleRegressor": treeEnsembleRegressor,
	"TreeEnsembleClassifier": treeEnsembleClassifier, "LinearClassifier": linearClassifier,
	"LinearRegressor": linearRegressor, "SVMClassifier": svmClassifier, "SVMRegressor": svmRegressor,
	"Scaler": scaler, "Normalizer": normalizer, "Imputer": imputer, "Binarizer": binarizer,
	"OneHotEncoder": oneHotEncoder, "LabelEncoder": labelEncoder, "CategoryMapper": categoryMapper,
	"FeatureVectorizer": featureVectorizer, "ArrayFeatureExtractor": arrayFeatureExtractor,
	"DictVectorizer": dictVectorizer, "CastMap": castMap, "ZipMap": zipMap,
}
