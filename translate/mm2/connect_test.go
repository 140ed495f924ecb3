package mm2

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestConnectOffsets(t *testing.T) {
	const key = `["MirrorSourceConnector",{"cluster":"a","partition":3,"topic":"orders"}]`
	at := ConnectOffset{Connector: "MirrorSourceConnector", Cluster: "a", Topic: "orders", Partition: 3}
	with := func(last int64) ConnectOffset { c := at; c.Last = last; return c }
	gone := at
	gone.Deleted = true
	strimzi := with(7)
	strimzi.Connector = "a->b.MirrorSourceConnector"
	for name, c := range map[string]struct {
		key, value string
		want       ConnectOffset
		err        error
	}{
		"as written":               {key: key, value: `{"offset":41}`, want: with(41)},
		"the first record":         {key: key, value: `{"offset":0}`, want: with(0)},
		"beyond what floats hold":  {key: key, value: `{"offset":9007199254740993}`, want: with(9007199254740993)},
		"the highest":              {key: key, value: `{"offset":9223372036854775807}`, want: with(math.MaxInt64)},
		"other order, other name":  {key: `["a->b.MirrorSourceConnector",{"topic":"orders","cluster":"a","partition":3}]`, value: `{"offset":7}`, want: strimzi},
		"deleted by null":          {key: key, value: ` null `, want: gone},
		"no offset":                {key: key, value: `{}`, err: ErrCorrupt},
		"other case":               {key: key, value: `{"Offset":1}`, err: ErrCorrupt},
		"offset null":              {key: key, value: `{"offset":null}`, err: ErrCorrupt},
		"offset negative":          {key: key, value: `{"offset":-1}`, err: ErrCorrupt},
		"offset a fraction":        {key: key, value: `{"offset":1.5}`, err: ErrCorrupt},
		"offset too high":          {key: key, value: `{"offset":9223372036854775808}`, err: ErrCorrupt},
		"offset a string":          {key: key, value: `{"offset":"1"}`, err: ErrCorrupt},
		"value cut":                {key: key, value: `{"off`, err: ErrCorrupt},
		"empty value":              {key: key, err: ErrCorrupt},
		"key cut":                  {key: key[:9], err: ErrCorrupt},
		"key an object":            {key: `{}`, err: ErrCorrupt},
		"key of one part":          {key: `["a"]`, err: ErrCorrupt},
		"key without a name":       {key: `[null,{}]`, err: ErrCorrupt},
		"negative partition":       {key: `["m",{"cluster":"a","partition":-1,"topic":"t"}]`, err: ErrCorrupt},
		"partition beyond int32":   {key: `["m",{"cluster":"a","partition":2147483648,"topic":"t"}]`, err: ErrForeign},
		"the checkpoint connector": {key: `["MirrorCheckpointConnector",{"group":"g","partition":0,"topic":"a.t"}]`, value: `{"offset":0}`, err: ErrForeign},
		"the heartbeat connector":  {key: `["MirrorHeartbeatConnector",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]`, value: `{"offset":0}`, err: ErrForeign},
		"a file connector":         {key: `["files",{"filename":"x"}]`, value: `{"position":0}`, err: ErrForeign},
		"one field more":           {key: `["m",{"cluster":"a","partition":1,"topic":"t","x":1}]`, err: ErrForeign},
		"no partition":             {key: `["m",null]`, err: ErrForeign},
		"deep":                     {key: strings.Repeat("[", 100_000), err: ErrCorrupt},
	} {
		got, err := DecodeConnectOffset([]byte(c.key), []byte(c.value))
		if !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := DecodeConnectOffset([]byte(key), nil); err != nil || got != gone {
		t.Errorf("a tombstone: %+v, %v", got, err)
	}
	if _, err := DecodeConnectOffset(nil, nil); !errors.Is(err, ErrNull) {
		t.Errorf("no key: %v", err)
	}
	if n := with(41).Next(); n != 42 {
		t.Errorf("goes on at %d", n)
	}
}

func FuzzDecodeConnectOffset(f *testing.F) {
	f.Add([]byte(`["m",{"cluster":"a","partition":3,"topic":"orders"}]`), []byte(`{"offset":41}`))
	f.Add([]byte(`["m",{"cluster":"a","partition":3,"topic":"orders"}]`), []byte("null"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, err := DecodeConnectOffset(key, value)
		if err != nil {
			known(t, err)
			return
		}
		if c.Partition < 0 || c.Last < 0 || c.Deleted && c.Last != 0 {
			t.Fatalf("%+v", c)
		}
	})
}
