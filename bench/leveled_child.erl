%% A store of Leveled in a process of its own:
%% `erl -noshell -pa MODULES -run leveled_child main sync|none FOLDER`.
%%
%% The first line of standard output tells how the store compresses. Then each line of standard input
%% is a command, and a line of standard output its answer. All answers are JSON objects; other lines
%% are Leveled's own. A rate is of Erlang's monotonic time, from the first call to the last answer.
%% What fails ends the process; so does the end of input, which closes the store.
%%
%%   put FIRST COUNT PROCESSES BYTES    random values of BYTES with two index entries
%%   head COUNT BELOW                   of random numbers below BELOW, one after the other
%%   get COUNT BELOW BYTES              the same, values of BYTES
%%   fold COUNT                         all heads in order, which are COUNT

-module(leveled_child).

-export([main/1]).

-define(BUCKET, <<"bucket">>).
-define(TAG, o).
-define(PAUSE_MS, 1).
%% How long a process waits that was told to pause: what a put answers that was taken late.

main([Strategy, Folder]) ->
    {Name, Compression} = compression(),
    {ok, Bookie} = leveled_bookie:book_start([
        {root_path, Folder},
        {sync_strategy, list_to_atom(Strategy)},
        {log_level, error}
        | Compression
    ]),
    io:format("{\"compression\": \"~s\"}~n", [Name]),
    serve(Bookie).

serve(Bookie) ->
    case io:get_line("") of
        eof ->
            ok = leveled_bookie:book_close(Bookie),
            halt(0);
        Line ->
            [Verb | Arguments] = string:lexemes(string:trim(Line), " "),
            done(Verb, [list_to_integer(Argument) || Argument <- Arguments], Bookie),
            serve(Bookie)
    end.

done("put", [First, Count, Processes, Bytes], Bookie) ->
    Value = crypto:strong_rand_bytes(Bytes),
    tell(Count, fun() -> put_all(Bookie, First, Count, Processes, Value) end);
done("head", [Count, Below], Bookie) ->
    Look = fun(Key) -> {ok, _} = leveled_bookie:book_head(Bookie, ?BUCKET, Key, ?TAG) end,
    tell_of_each(Look, Count, Below);
done("get", [Count, Below, Bytes], Bookie) ->
    Get = fun(Key) ->
        {ok, <<_:Bytes/binary>>} = leveled_bookie:book_get(Bookie, ?BUCKET, Key, ?TAG)
    end,
    tell_of_each(Get, Count, Below);
done("fold", [Count], Bookie) ->
    Add = fun(_Bucket, _Key, _Head, Sum) -> Sum + 1 end,
    tell(Count, fun() ->
        {async, Run} = leveled_bookie:book_headfold(Bookie, ?TAG, {Add, 0}, false, true, false),
        Count = Run()
    end).

%% LZ4 is what Leveled does by itself. Where it is not built, values are kept as they came.
compression() ->
    case code:ensure_loaded(lz4) of
        {module, lz4} ->
            {"lz4", [{compression_method, lz4}, {compression_point, on_receipt}]};
        {error, _} ->
            {"native", [{compression_method, native}, {compression_point, on_compact}]}
    end.

put_all(Bookie, First, Count, Processes, Value) ->
    Taken = atomics:new(1, []),
    Workers = [
        spawn_monitor(fun() -> put_some(Bookie, First, Count, Value, Taken) end)
     || _ <- lists:seq(1, Processes)
    ],
    lists:foreach(fun ended/1, Workers).

ended({Worker, Reference}) ->
    receive
        {'DOWN', Reference, process, Worker, Reason} -> normal = Reason
    end.

put_some(Bookie, First, Count, Value, Taken) ->
    case atomics:add_get(Taken, 1, 1) - 1 of
        Number when Number < Count ->
            put_one(Bookie, First + Number, Value),
            put_some(Bookie, First, Count, Value, Taken);
        _ ->
            ok
    end.

put_one(Bookie, Number, Value) ->
    <<_, Day/binary>> = integer_to_binary(100 + Number rem 28 + 1),
    Index = [
        {add, <<"owner">>, <<"user-", (integer_to_binary(Number rem 1000))/binary>>},
        {add, <<"day">>, <<"2026-01-", Day/binary>>}
    ],
    case leveled_bookie:book_put(Bookie, ?BUCKET, key(Number), Value, Index, ?TAG) of
        ok -> ok;
        pause -> timer:sleep(?PAUSE_MS)
    end.

tell_of_each(Do, Count, Below) ->
    Numbers = [rand:uniform(Below) - 1 || _ <- lists:seq(1, Count)],
    tell(Count, fun() -> lists:foreach(fun(Number) -> Do(key(Number)) end, Numbers) end).

tell(Count, Do) ->
    Start = erlang:monotonic_time(),
    Do(),
    Spent = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond),
    io:format("{\"rate\": ~s}~n", [float_to_list(Count * 1.0e9 / max(1, Spent), [{decimals, 3}])]).

key(Number) ->
    <<_, Digits/binary>> = integer_to_binary(1000000000 + Number),
    <<"key-", Digits/binary>>.
