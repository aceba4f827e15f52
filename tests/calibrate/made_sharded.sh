# shellcheck shell=bash
# Generates a Kineto trace of one rank that trains with sharded states (sourced by tests).
#
#   made_sharded FORM KIND LAYERS RANKS   to standard output
#
# FORM  params: kernels with record_param_comms ranges (PyTorch 2); ranges: nccl: ranges with the
#       sizes of their inputs (PyTorch 1)
# KIND  full: FSDP, gathers each layer's parameters for both passes; once: gathers for the forward
#       pass only; update: gathers after the update (ZeRO 1 and 2); ddp: all-reduces gradients;
#       split: all-reduces each layer's activations between pairs of ranks in both passes (tensor
#       parallelism), and gradients among every second rank; exchanged: ddp with one all-to-all
#       of all ranks per layer in the forward pass
#
# Three steps, at least 1 ms apart. Per layer: 1,000,000 numbers (4 MB), forward 200 us, backward
# 400 us. The update takes 100 us; on another stream, gathers take 50 us and reduce-scatters 60 us.

at=0 correlation=0
event() { # category, name, start, duration, thread, args
    printf '{"ph":"X","cat":"%s","name":"%s","pid":9,"tid":%s,"ts":%d,"dur":%d,"args":{%s}},\n' \
        "$1" "$2" "$5" "$3" "$4" "$6"
}
launch() { # name, stream, duration: runs after earlier work of its stream, launched at `host`
    correlation=$((correlation + 1))
    event cuda_runtime cudaLaunchKernel $host 2 9 "\"correlation\":$correlation"
    local start=$((free[$2] > host + 4 ? free[$2] : host + 4))
    printf '{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d}},\n' \
        "$1" "$2" $start "$3" "$2" $correlation
    free[$2]=$((start + $3))
    host=$((host + 3))
}
collective() { # PyTorch's name, kernel, in numbers, out numbers, duration, ranks (default: all)
    local group=${6:-$ranks}
    if [ "$form" = params ]; then
        event cpu_op record_param_comms $host 5 9 "\"Collective name\":\"$1\",\"In msg nelems\":$3,\"Out msg nelems\":$4,\"dtype\":\"Float\",\"Group size\":$group,\"Process Group Name\":\"$group\",\"Rank\":0"
    else
        event user_annotation "nccl:$1" $host 5 9 "\"Input Dims\":[[$3]],\"Input type\":[\"float\"]"
    fi
    host=$((host + 1))
    launch "$2" 20 "$5"
}
gather() { # numbers
    collective _allgather_base ncclDevKernel_AllGather_RING_LL $(($1 / ranks)) "$1" 50
}
scatter() { collective _reduce_scatter_base ncclDevKernel_ReduceScatter_Sum_f32_RING_LL $numbers $((numbers / ranks)) 60; }
reduce() { # numbers, ranks
    collective allreduce ncclDevKernel_AllReduce_Sum_f32_RING_LL "$1" "$1" 90 "$2"
}

made_sharded() {
    local form=$1 kind=$2 layers=$3 ranks=$4 numbers=1000000 step layer host start
    declare -A free=([7]=0 [20]=0)
    echo "{\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA A100-SXM4-80GB\"}],"
    echo "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": $ranks}, \"traceEvents\": ["
    host=1000
    for step in 1 2 3; do
        start=$host
        for ((layer = 0; layer < layers; layer++)); do
            case $kind in
            full | once) gather $numbers ;;
            exchanged) collective all_to_all ncclDevKernel_SendRecv $numbers $numbers 80 ;;
            esac
            launch sgemm_forward_$layer 7 200
            [ "$kind" = split ] && reduce 500000 2
        done
        for ((layer = layers - 1; layer >= 0; layer--)); do
            event cpu_op "autograd::engine::evaluate_function: AddmmBackward0" $host 6 9 ""
            [ "$kind" = full ] && ((layer < layers - 1)) && gather $numbers
            host=$((host + 1))
            launch sgemm_backward_$layer 7 400
            [ "$kind" = split ] && reduce 500000 2
            case $kind in
            ddp | exchanged) reduce $numbers "$ranks" ;;
            split) reduce $numbers $((ranks / 2)) ;;
            *) scatter ;;
            esac
        done
        event cpu_op "Optimizer.step#Adam.step" $host 10 9 ""
        host=$((free[20] > free[7] ? free[20] : free[7]))
        launch multi_tensor_apply_adam 7 100
        [ "$kind" = update ] && gather $((layers * numbers))
        correlation=$((correlation + 1))
        event cuda_runtime cudaDeviceSynchronize $host $((free[7] - host + 60)) 9 "\"correlation\":$correlation"
        host=$((free[7] + 100))
        event user_annotation "ProfilerStep#$step" $start $((host - start)) 9 ""
    done
    echo '{"ph":"X","cat":"Trace","name":"all","ts":0,"dur":90000}], "traceName": "t"}'
}
